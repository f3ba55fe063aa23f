"""The document of a plan, the content of ``plan.json``; ``plan_file`` reads and writes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from reclaim.engine.answers import ContainerFiles
from reclaim.engine.tasks.parts import Part
from reclaim.history import Holder
from reclaim.policy.lifecycle import DatedRule
from reclaim.run_record import COLLECT, EXPIRE

FORMAT = 2
OF_RUNS = ("record", "run", "work", "quarantine")
"""Kinds of objects written by runs."""


def _one_of(*words: str) -> Any:
    """Field with a fixed set of words in its schema. Plans with other words can be read."""
    return Field(json_schema_extra={"enum": [*words]})


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreName(_Model):
    """Identity of the store of a plan."""

    kind: str
    name: str
    uid: str
    storage: str
    deleted: bool
    noun: str = "commit"
    """The store's own word for a snapshot."""
    quarantines: bool | None = None
    """Whether an apply moves objects to quarantine by default."""


class Where(_Model):
    """Original location of a plan. Addresses of its files start there, so a plan cannot be
    moved."""

    url: str
    prefix: str


class File(_Model):
    """File of the plan."""

    address: str
    rows: int
    sha256: str

    @classmethod
    def of(cls, part: Part) -> File:
        return cls(address=part.address, rows=part.rows, sha256=part.sha256)

    @property
    def part(self) -> Part:
        return Part(self.address, self.rows, self.sha256)


class Counts(_Model):
    """Counts expected or read, each taken where the work was done.

    ``snapshots`` counts all snapshots of the store, the other fields only data of live snapshots.
    """

    snapshots: int
    containers: int
    entries: int
    held: int


class Group(_Model):
    """Objects with common properties."""

    objects: int
    bytes: int
    kind: str
    reason: str
    branch: str = ""
    prefix: str = ""
    age: str = ""


class Large(_Model):
    """Large object among the candidates."""

    bytes: int
    address: str
    path: str


class Noncurrent(_Model):
    """Noncurrent versions kept by a bucket."""

    objects: int
    bytes: int


class HistoryChange(_Model):
    """Size of a plan's history edit, with or without deletions."""

    reparented: int
    """Snapshots with new parents."""
    released: int
    """Snapshots that branches or tags reach before the edit, but not after it."""
    held: int
    """Released snapshots kept by a lease, or by a run that can be undone."""


class HeldBy(_Model):
    """Holder of expired snapshots: a branch, a tag, or the undo of a run."""

    kind: str
    ref: str | None
    run: str | None
    until: AwareDatetime | None
    """End of the hold of an undo."""
    commits: int

    @property
    def holder(self) -> Holder:
        return Holder(self.kind, self.ref or self.run or "", self.commits, self.until)


class TooYoung(_Model):
    """Unreferenced objects younger than the margin. A later run may delete them."""

    objects: int
    bytes: int
    snapshots: int
    """Snapshots kept by age alone, in stores with such snapshots; their objects do not count."""
    first_at: AwareDatetime
    """When the first object is old enough."""
    all_at: AwareDatetime


class LibraryEdit(_Model):
    """History edit by the store's own library: options besides the rules."""

    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


class IndexFile(File):
    """File of the index, with its first and last partition and day."""

    span: str = ""

    @classmethod
    def of(cls, part: Part) -> IndexFile:
        return cls(address=part.address, rows=part.rows, sha256=part.sha256, span=part.group)

    @property
    def part(self) -> Part:
        return Part(self.address, self.rows, self.sha256, self.span)


class ContainerCounts(_Model):
    """Number of live containers and of their entries."""

    of_snapshots: int
    containers: int
    entries: int

    @classmethod
    def of(cls, containers: ContainerFiles) -> ContainerCounts:
        return cls(
            of_snapshots=containers.of_snapshots,
            containers=containers.containers,
            entries=containers.entries,
        )


class _Incremental(_Model):
    """Extent of an incremental run, and its results for the next run of any kind."""

    mode: Annotated[str, _one_of("full", "incremental")]
    why: str
    base: str | None
    """Run with the newest checkpoint."""
    generation: int
    """Generation of the index written by the run; 0 for a new index."""
    barriers: list[str]
    index: list[IndexFile]
    """Entries of the ranges read by the run."""
    indexed: list[File] | None = None
    """Ranges read by the run; None in a plan of an older version, which leaves no checkpoint."""

    @model_validator(mode="before")
    @classmethod
    def _of_older_version(cls, data: Any) -> Any:
        """Convert a section of an older version."""
        if not isinstance(data, dict) or "known_index" not in data:
            return data
        words = {"clean": "full", "optimized": "incremental"}
        known = {name: value for name, value in data.items() if name != "known_index"}
        return known | {"mode": words.get(data.get("mode", ""), data.get("mode"))}


class Uncommitted(_Incremental):
    """Search of a run for uncommitted data, and its results for the next run."""

    branch: str | None
    """Branch the listing was limited to."""
    partitions_listed: int
    objects_listed: int
    objects_looked_up: int
    """Objects looked up by address."""
    bytes_read: int
    """Bytes of ranges, of the index and of the checkpoint."""
    ranges_read: int
    objects_known: int
    """Known objects of the store, without files of runs."""
    counts: ContainerCounts
    taken: int = 0
    """Objects deleted by lifecycle rules in partitions not listed since."""
    carried: list[File]
    partitions: File | None
    """Objects and bytes by partition, and whether the partition is final; None if the run leaves no
    checkpoint."""


class LifecycleRuleDate(_Model):
    """Date of a lifecycle rule for a branch on the day of the plan; "" for all other branches."""

    rule_id: str
    prefix: str
    branch: str
    date_to_be_deleted: date

    @classmethod
    def of(cls, rule: DatedRule) -> LifecycleRuleDate:
        return cls(
            rule_id=rule.rule_id,
            prefix=rule.prefix,
            branch=rule.branch,
            date_to_be_deleted=rule.date_to_be_deleted,
        )

    @property
    def dated(self) -> DatedRule:
        return DatedRule(self.rule_id, self.prefix, self.branch, self.date_to_be_deleted)


class Lifecycle(_Incremental):
    """Judgement of lifecycle rules: the data an apply needs to judge again, and the results for the
    next run."""

    today: date
    policy: dict[str, Any]
    """Rules as in a policy file."""
    rules: list[LifecycleRuleDate]
    """Enabled rules on the day of the plan."""
    commits: File
    """Reachable commits with their bitmaps; see ``tasks.lifecycle.COMMITS``."""
    holders: list[str]
    branches: list[str]
    """Names for the numbers of holders, and of branches without a rule."""
    ranges: list[File]
    """Ranges of these commits without duplicates, with their bitmaps: ``tasks.lifecycle.RANGES``.
    """
    rows: list[File]
    """Paths of the addresses in the plan, with their bitmaps: ``tasks.lifecycle.ROWS``."""
    addresses: list[File]
    """Addresses in the plan with their paths and rules: ``tasks.lifecycle.ADDRESSES``."""
    held: list[File]
    """Addresses matched by a rule that stay: ``tasks.lifecycle.HELD``."""
    current_rules: File
    potential_commits: File
    """Tables published after the plan is applied; see ``run.lifecycle.tables``."""
    held_count: int
    gone: int
    """Matched addresses whose bytes no longer exist."""
    objects_known: int
    """Known data objects of the store."""
    bytes_read: int
    """Bytes of metaranges, of ranges, of the index and of the checkpoint."""
    ranges_read: int
    metaranges_read: int

    @property
    def dated_rules(self) -> list[DatedRule]:
        return [rule.dated for rule in self.rules]


class HistoryOnly(_Model):
    """Plan to edit the history without deleting objects."""

    refs: dict[str, str] = {}
    """Branches and tags to edit, each with its commit; empty for all refs."""


@dataclass(frozen=True, slots=True)
class PlanSections:
    """Sections of a plan specific to its kind of run."""

    uncommitted: Uncommitted | None = None
    lifecycle: Lifecycle | None = None
    history_only: HistoryOnly | None = None


NO_SECTIONS = PlanSections()


class PlanDocument(_Model):
    """Content of a plan, except the lists of objects and snapshots in separate files."""

    format: int = FORMAT
    run: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    """Used in addresses, so no other characters are allowed."""
    place: Where
    store: StoreName
    promise: str
    started_at: AwareDatetime
    read_at: AwareDatetime
    cutoff: AwareDatetime
    policy: list[str]
    """The policy as text for people."""
    rules: dict[str, Any]
    """The policy as input of ``policy.parse``; an apply decides by it again."""
    policy_source: Annotated[str, _one_of("given", "stored", "none", "")] = ""
    """Origin of the policy (``stored``: with the store); "" if unknown."""
    library_edit: LibraryEdit | None = None
    """Set if the store's own library edits the history instead of Reclaim."""
    inventory: str | None
    versioning: str = ""
    """Whether the bucket keeps versions, so that deletes alone free no space."""
    noncurrent: Noncurrent | None = None
    objects: int
    bytes: int
    candidates: int
    candidate_bytes: int
    allowed_fraction: float
    expected: Counts
    read: Counts
    refs: int
    leases: int
    live: int
    """Snapshots that stay."""
    expired: int
    """Snapshots reachable from a branch or tag and kept by no rule; see ``history.expired``."""
    held_by: list[HeldBy] = []
    """Holders of expired snapshots, largest first; each snapshot counts for a single holder."""
    dead: int
    too_young: TooYoung | None = None
    history: HistoryChange | None = None
    """None in a plan of an older version."""
    going: list[Group]
    staying: list[Group]
    largest: list[Large]
    warnings: list[str]
    causes: list[str]
    deleted_refs: list[str]
    files: list[File]
    containers: list[File]
    snapshots: File
    protect: list[str] = []
    """Globs of protected paths, from the settings of the store."""
    protected: list[File] = []
    """Addresses and paths matched by these globs in containers of dead commits. An apply stores
    them."""
    uncommitted: Uncommitted | None = None
    """Set for a run on uncommitted data."""
    lifecycle: Lifecycle | None = None
    """Set for a run of lifecycle rules."""
    history_only: HistoryOnly | None = None
    """Set for a run that edits the history and deletes no objects."""
    digest: str = ""

    @property
    def run_kind(self) -> str:
        """Kind of the run that applies the plan."""
        return COLLECT if self.history_only is None else EXPIRE

    @property
    def edits_history(self) -> bool:
        return bool(self.deleted_refs or (self.history and self.history.reparented))

    @property
    def incremental(self) -> Uncommitted | Lifecycle | None:
        """The section of a run that can start from a checkpoint."""
        return self.uncommitted or self.lifecycle

    @property
    def leaves_checkpoint(self) -> bool:
        """Whether an apply of the plan leaves a checkpoint for the next run."""
        has_checkpoint = self.uncommitted is not None and self.uncommitted.partitions is not None
        return has_checkpoint or self.lifecycle is not None

    @property
    def fraction(self) -> float:
        """Fraction of objects to delete, without files of runs.

        For a run that listed a part of the store, the fraction of all known objects.
        """
        going, whole = self.counted
        return going / whole if whole else 0.0

    @property
    def counted(self) -> tuple[int, int]:
        """Number of objects to delete, and of all objects, without files of runs."""
        left = sum(group.objects for group in (*self.going, *self.staying) if group.kind in OF_RUNS)
        going = sum(group.objects for group in self.going if group.kind not in OF_RUNS)
        if self.uncommitted is not None:
            return going, max(going, self.uncommitted.objects_known)
        if self.lifecycle is not None:
            return going, max(going, self.lifecycle.objects_known)
        return going, max(0, self.objects - left)

    @property
    def all_paths(self) -> list[Part]:
        """Files with all paths of the candidates, if several paths are known."""
        return [] if self.lifecycle is None else [file.part for file in self.lifecycle.rows]

    def sealed(self) -> PlanDocument:
        """Return the document with its hash."""
        return self.model_copy(update={"digest": self._hash()})

    def _hash(self) -> str:
        return hash_of(self.model_dump(mode="json"))


def hash_of(body: Mapping[str, Any]) -> str:
    """Hash of a plan document, computed without its own digest."""
    content = {name: value for name, value in body.items() if name != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

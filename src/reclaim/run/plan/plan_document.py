"""The document of a plan, as ``plan.json`` has it; ``plan_file`` reads and writes it."""

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
"""Kinds of objects that runs write for themselves."""


def _one_of(*words: str) -> Any:
    """The words that a field can be, in its schema; a plan with another word can be read."""
    return Field(json_schema_extra={"enum": [*words]})


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreName(_Model):
    """Which store a plan is for."""

    kind: str
    name: str
    uid: str
    storage: str
    deleted: bool
    noun: str = "commit"
    """The store's own word for a snapshot."""
    quarantines: bool | None = None
    """Whether an apply moves objects to quarantine unless it is told otherwise."""


class Where(_Model):
    """Where a plan was written. Its files are named from there, so it cannot be moved."""

    url: str
    prefix: str


class File(_Model):
    """A file of the plan."""

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
    """How much there must be, or how much was read; each of them counted where it was done.

    ``snapshots`` are all that the store has, the others are what live ones need.
    """

    snapshots: int
    containers: int
    entries: int
    held: int


class Group(_Model):
    """Objects with something in common."""

    objects: int
    bytes: int
    kind: str
    reason: str
    branch: str = ""
    prefix: str = ""
    age: str = ""


class Large(_Model):
    """One of the largest objects that would go."""

    bytes: int
    address: str
    path: str


class Noncurrent(_Model):
    """Versions that a bucket keeps of what was deleted or replaced before."""

    objects: int
    bytes: int


class HistoryChange(_Model):
    """The edit of the history that a plan makes, whether anything goes by it or not."""

    reparented: int
    """Snapshots that get other parents."""
    released: int
    """Snapshots that branches or tags reach, and do not reach after it."""
    held: int
    """Those of them that stay: a lease has them, or a run that can be undone."""


class HeldBy(_Model):
    """A branch, a tag, or the undo of a run, and the number of expired snapshots that it holds."""

    kind: str
    ref: str | None
    run: str | None
    until: AwareDatetime | None
    """When the hold of an undo ends."""
    commits: int

    @property
    def holder(self) -> Holder:
        return Holder(self.kind, self.ref or self.run or "", self.commits, self.until)


class TooYoung(_Model):
    """Objects without a reference that are younger than the margin: they may go later."""

    objects: int
    bytes: int
    snapshots: int
    """Snapshots that only their age keeps, where a store has such; their objects do not count."""
    first_at: AwareDatetime
    """When the first of them is old enough."""
    all_at: AwareDatetime


class LibraryEdit(_Model):
    """An edit of the history that the store's own library makes: what it is asked beside rules."""

    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


class IndexFile(File):
    """A part of the index, with the first and the last partition and day that it has."""

    span: str = ""

    @classmethod
    def of(cls, part: Part) -> IndexFile:
        return cls(address=part.address, rows=part.rows, sha256=part.sha256, span=part.group)

    @property
    def part(self) -> Part:
        return Part(self.address, self.rows, self.sha256, self.span)


class ContainerCounts(_Model):
    """How many live containers there were, and how much they list."""

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
    """How much a run looked at, and what it leaves for the next run of any kind."""

    mode: Annotated[str, _one_of("full", "incremental")]
    why: str
    base: str | None
    """The run whose checkpoint was the newest."""
    generation: int
    """The generation of the index that the run leaves; 0 if it begins one."""
    barriers: list[str]
    index: list[IndexFile]
    """The entries of the ranges that the run has read."""
    indexed: list[File] | None = None
    """These ranges; None in a plan of an older version, which leaves no checkpoint."""

    @model_validator(mode="before")
    @classmethod
    def _of_older_version(cls, data: Any) -> Any:
        """A section as an older version wrote it."""
        if not isinstance(data, dict) or "known_index" not in data:
            return data
        words = {"clean": "full", "optimized": "incremental"}
        known = {name: value for name, value in data.items() if name != "known_index"}
        return known | {"mode": words.get(data.get("mode", ""), data.get("mode"))}


class Uncommitted(_Incremental):
    """How a run on uncommitted data looked for it, and what it leaves for the next one."""

    branch: str | None
    """The branch that the listing was limited to."""
    partitions_listed: int
    objects_listed: int
    objects_looked_up: int
    """Objects that were asked for by their addresses."""
    bytes_read: int
    """Bytes of ranges, of the index and of the checkpoint."""
    ranges_read: int
    objects_known: int
    """Objects that are known of the store, without what runs left of themselves."""
    counts: ContainerCounts
    taken: int = 0
    """Objects that runs of lifecycle rules took of partitions that were not listed since."""
    carried: list[File]
    partitions: File | None
    """Objects and bytes by partition, and whether it is final; None if no checkpoint follows."""


class LifecycleRuleDate(_Model):
    """A rule for one branch on the day of the plan; "" for every other branch."""

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
    """How lifecycle rules were judged: everything that an apply needs to judge again, and what the
    run leaves for the next one."""

    today: date
    policy: dict[str, Any]
    """The rules as a file has them."""
    rules: list[LifecycleRuleDate]
    """The enabled rules on that day."""
    commits: File
    """Commits that something reaches, with their bitmaps; see ``tasks.lifecycle.COMMITS``."""
    holders: list[str]
    branches: list[str]
    """The names behind the numbers of holders and of branches that no rule names."""
    ranges: list[File]
    """Ranges that they have, each once, with their bitmaps: as ``tasks.lifecycle.RANGES``."""
    rows: list[File]
    """Paths of the addresses in the plan, with their bitmaps: as ``tasks.lifecycle.ROWS``."""
    addresses: list[File]
    """The addresses in the plan with their paths and rules: as ``tasks.lifecycle.ADDRESSES``."""
    held: list[File]
    """Addresses that a rule matches and that stay: as ``tasks.lifecycle.HELD``."""
    current_rules: File
    potential_commits: File
    """Tables that are published when the plan was applied; see ``run.lifecycle.tables``."""
    held_count: int
    gone: int
    """Addresses that would go and whose bytes are not there any more."""
    objects_known: int
    """Data objects that are known of the store."""
    bytes_read: int
    """Bytes of metaranges, of ranges, of the index and of the checkpoint."""
    ranges_read: int
    metaranges_read: int

    @property
    def dated_rules(self) -> list[DatedRule]:
        return [rule.dated for rule in self.rules]


class HistoryOnly(_Model):
    """A plan that edits the history and deletes nothing."""

    refs: dict[str, str] = {}
    """The branches and tags that the edit is narrowed to, each with its commit; all if there are
    none."""


@dataclass(frozen=True, slots=True)
class PlanSections:
    """The sections of a plan that only some kinds of runs have."""

    uncommitted: Uncommitted | None = None
    lifecycle: Lifecycle | None = None
    history_only: HistoryOnly | None = None


NO_SECTIONS = PlanSections()


class PlanDocument(_Model):
    """Everything that a plan says, but for the lists of objects and snapshots beside it."""

    format: int = FORMAT
    run: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    """It becomes a part of addresses, so nothing else may stand in it."""
    place: Where
    store: StoreName
    promise: str
    started_at: AwareDatetime
    read_at: AwareDatetime
    cutoff: AwareDatetime
    policy: list[str]
    """The policy as people read it."""
    rules: dict[str, Any]
    """The policy as ``policy.parse`` reads it: by it an apply decides again."""
    policy_source: Annotated[str, _one_of("given", "stored", "none", "")] = ""
    """Where the policy comes from (``stored``: with the store); "" where it is not known."""
    library_edit: LibraryEdit | None = None
    """If the store's own library edits the history, and not Reclaim."""
    inventory: str | None
    versioning: str = ""
    """Whether the bucket keeps versions; then deletes alone free nothing."""
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
    """Snapshots that a branch or a tag reaches and no rule keeps; see ``history.expired``."""
    held_by: list[HeldBy] = []
    """The holders of some of them, the largest first; each snapshot counts for one holder."""
    dead: int
    too_young: TooYoung | None = None
    history: HistoryChange | None = None
    """None in a plan from before it was written down."""
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
    """Globs of the store's setting, of which nothing goes."""
    protected: list[File] = []
    """Addresses and paths that these globs match in containers of commits that go: an apply
    remembers them."""
    uncommitted: Uncommitted | None = None
    """For a run on uncommitted data."""
    lifecycle: Lifecycle | None = None
    """For a run of lifecycle rules."""
    history_only: HistoryOnly | None = None
    """For a run that edits the history and deletes nothing."""
    digest: str = ""

    @property
    def run_kind(self) -> str:
        """The kind of the run that applies it."""
        return COLLECT if self.history_only is None else EXPIRE

    @property
    def edits_history(self) -> bool:
        return bool(self.deleted_refs or (self.history and self.history.reparented))

    @property
    def incremental(self) -> Uncommitted | Lifecycle | None:
        """The section of a run that may start from a checkpoint."""
        return self.uncommitted or self.lifecycle

    @property
    def leaves_checkpoint(self) -> bool:
        """Whether the next run starts from what an apply of it leaves."""
        noted = self.uncommitted is not None and self.uncommitted.partitions is not None
        return noted or self.lifecycle is not None

    @property
    def fraction(self) -> float:
        """The part of all objects that would go. What runs left of themselves does not count.

        All are those that are known of the store, where a run has looked at a part of it.
        """
        going, whole = self.counted
        return going / whole if whole else 0.0

    @property
    def counted(self) -> tuple[int, int]:
        """How many objects would go, and of how many, without what runs left of themselves."""
        left = sum(one.objects for one in (*self.going, *self.staying) if one.kind in OF_RUNS)
        going = sum(one.objects for one in self.going if one.kind not in OF_RUNS)
        if self.uncommitted is not None:
            return going, max(going, self.uncommitted.objects_known)
        if self.lifecycle is not None:
            return going, max(going, self.lifecycle.objects_known)
        return going, max(0, self.objects - left)

    @property
    def all_paths(self) -> list[Part]:
        """Files with every path of the candidates, where more than one is known."""
        return [] if self.lifecycle is None else [file.part for file in self.lifecycle.rows]

    def sealed(self) -> PlanDocument:
        """The same with its hash."""
        return self.model_copy(update={"digest": self._hash()})

    def _hash(self) -> str:
        return hash_of(self.model_dump(mode="json"))


def hash_of(body: Mapping[str, Any]) -> str:
    """The hash of a plan, without the one that it carries."""
    told = {name: value for name, value in body.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

"""A plan as it is written down: ``plan.json``, which people read and apply obeys.

It carries a hash of itself and of every file beside it: a plan that was edited is not applied. Who
edits all of them can make the hashes right again; see ``trust`` for that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from reclaim.engine.base import ContainerFiles
from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import NotFound, PlanRefused, UnknownVersion
from reclaim.storage import Storage

FORMAT = 2
FILE = "plan.json"
OF_RUNS = ("record", "run", "work", "quarantine")
"""Kinds of objects that runs write for themselves."""


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


class TooYoung(_Model):
    """What nothing refers to and is younger than the margin: it may go later, if that stays so."""

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
    """A part of the index, with the first and the last partition that it has."""

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


class Uncommitted(_Model):
    """How a run on uncommitted data looked for it, and what it leaves for the next one."""

    mode: str
    why: str
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
    base: str | None
    """The run whose checkpoint was the newest."""
    generation: int
    barriers: list[str]
    counts: ContainerCounts
    index: list[IndexFile]
    known_index: list[IndexFile]
    """Parts of the index of earlier runs, in the storage of the store."""
    carried: list[File]
    partitions: File | None
    """Objects and bytes by partition, and whether it is final; None if no checkpoint follows."""


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
    policy_source: str = ""
    """``given``, ``stored`` (with the store) or ``none``; "" where it is not known."""
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
    """Snapshots that go because of the policy; those that are held do not count."""
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
    digest: str = ""

    @property
    def edits_history(self) -> bool:
        return bool(self.deleted_refs or (self.history and self.history.reparented))

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
        return going, max(0, self.objects - left)

    def sealed(self) -> PlanDocument:
        """The same with its hash."""
        return self.model_copy(update={"digest": self._hash()})

    def _hash(self) -> str:
        return _hash_of(self.model_dump(mode="json"))


def write(storage: Storage, place: Place, document: PlanDocument) -> PlanDocument:
    """Write a plan down; returns it with its hash."""
    sealed = document.sealed()
    storage.put(place.at(FILE), json.dumps(sealed.model_dump(mode="json"), indent=2).encode())
    return sealed


def find(storage: Storage, location: str) -> tuple[Place, PlanDocument]:
    """The plan in the folder that is the root of a storage, and the place that it names."""
    document = read(storage, Place(storage.url, ""))
    place = Place(document.place.url, document.place.prefix)
    if str(place) != storage.url:
        raise PlanRefused(
            f"the plan at {location} was written to {place} and moved from there",
            hint="plan it again, with --out naming its final place",
        )
    return place, document


def read(storage: Storage, place: Place) -> PlanDocument:
    """A plan as it was written; anything else is refused."""
    body = _body(storage, place)
    format = body.get("format")
    if format != FORMAT:
        older = isinstance(format, int) and format < FORMAT
        raise UnknownVersion(
            f"the plan at {place} has format {format}, and this Reclaim reads plans of format "
            f"{FORMAT}",
            hint="make a new plan with `reclaim plan`; the old one was not changed"
            if older
            else "apply it with the version of Reclaim that made it, or plan again with this one",
        )
    try:
        document = PlanDocument.model_validate_json(json.dumps(body))
    except ValidationError as error:
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="plan it again") from error
    return document


class PlannedRun(NamedTuple):
    """The run of a plan, and the store that it is for: its storage and its uid."""

    run: str
    storage: str | None
    uid: str | None


def find_run(storage: Storage, location: str) -> tuple[Place, PlannedRun]:
    """Where the plan at the root of a storage says that it is, and its run; of any format so far.

    A run that was made from it may have promised to give something back, whatever its format.
    """
    body = _body(storage, Place(storage.url, ""))
    try:
        known = Where.model_validate(body["place"])
        run = str(body["run"])
        planned_for = body.get("store", {})
        planned = PlannedRun(run, planned_for.get("storage"), planned_for.get("uid"))
    except (KeyError, AttributeError, ValidationError) as error:
        raise PlanRefused(f"{location}/{FILE} is not a plan", hint="plan it again") from error
    place = Place(known.url, known.prefix)
    if str(place) != storage.url:
        raise PlanRefused(f"the plan at {location} was written to {place} and moved from there")
    return place, planned


def _body(storage: Storage, place: Place) -> Mapping[str, Any]:
    """The file at a place, which must be as it was written."""
    try:
        data = storage.get(place.at(FILE))
    except NotFound as error:
        raise NotFound(
            f"there is no plan at {place}", hint="make one with `reclaim plan`"
        ) from error
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="plan it again") from error
    if not isinstance(body, dict):
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="plan it again")
    format = body.get("format")
    if isinstance(format, int) and format <= FORMAT and body.get("digest") != _hash_of(body):
        raise PlanRefused(
            f"the plan at {place} was changed after it was written",
            hint="plan it again; a plan cannot be edited by hand",
        )
    return body


def _hash_of(body: Mapping[str, Any]) -> str:
    told = {name: value for name, value in body.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

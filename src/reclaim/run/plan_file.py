"""A plan as it is written down: ``plan.json``, which people read and apply obeys.

It carries a hash of itself and of every file beside it: a plan that was edited is not applied. Who
edits all of them can make the hashes right again; see ``trust`` for that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import NotFound, PlanRefused, UnknownVersion
from reclaim.storage import Storage

FORMAT = 1
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
    """What its people call a snapshot."""


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
    """How much there must be of what live snapshots need, or how much was read."""

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
    expired: int
    dead: int
    going: list[Group]
    staying: list[Group]
    largest: list[Large]
    warnings: list[str]
    causes: list[str]
    deleted_refs: list[str]
    files: list[File]
    containers: list[File]
    snapshots: File
    digest: str = ""

    @property
    def fraction(self) -> float:
        """The part of all objects that would go. What runs left of themselves does not count."""
        left = sum(one.objects for one in (*self.going, *self.staying) if one.kind in OF_RUNS)
        going = sum(one.objects for one in self.going if one.kind not in OF_RUNS)
        return going / (self.objects - left) if self.objects > left else 0.0

    def sealed(self) -> PlanDocument:
        """The same with its hash."""
        return self.model_copy(update={"digest": self._hash()})

    def _hash(self) -> str:
        body = self.model_dump(mode="json", exclude={"digest"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


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
            hint="plan it again, with --out where it shall be",
        )
    return place, document


def read(storage: Storage, place: Place) -> PlanDocument:
    """A plan as it was written; anything else is refused."""
    try:
        data = storage.get(place.at(FILE))
    except NotFound as error:
        raise NotFound(
            f"there is no plan at {place}", hint="make one with `reclaim plan`"
        ) from error
    try:
        body: Mapping[str, Any] = json.loads(data)
        if body.get("format") != FORMAT:
            raise UnknownVersion(
                f"the plan at {place} has format {body.get('format')}; this Reclaim reads {FORMAT}"
            )
        document = PlanDocument.model_validate_json(data)
    except (ValueError, ValidationError, AttributeError) as error:
        raise PlanRefused(f"{place}/{FILE} is not a plan", hint="plan it again") from error
    if document.digest != document._hash():
        raise PlanRefused(
            f"the plan at {place} was changed after it was written",
            hint="plan it again; a plan cannot be edited by hand",
        )
    return document

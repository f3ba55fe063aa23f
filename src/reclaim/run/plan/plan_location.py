"""Find plans by location: a folder or a URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part
from reclaim.errors import NotFound
from reclaim.run.plan.plan_document import File, PlanDocument
from reclaim.run.plan.plan_file import FILE, find, read
from reclaim.storage import ObjectStorage, Storage
from reclaim.urls import normalize


def find_plan(location: str) -> tuple[Place, PlanDocument]:
    """Find a plan to apply. The plan must be at its original location."""
    storage = _open_plan(location)
    with _no_plan(location):
        return find(storage, location)


@dataclass(frozen=True, slots=True)
class LocatedPlan:
    """Plan to inspect, possibly copied or moved."""

    place: Place
    """Original location."""
    document: PlanDocument
    location: Place
    """Current location."""

    @classmethod
    def at(cls, place: Place, document: PlanDocument) -> LocatedPlan:
        """Return a plan at its original location."""
        return cls(place, document, replace(place, url=str(place), prefix=""))

    @property
    def moved_to(self) -> Place | None:
        """Current location of a moved plan; None at the original location."""
        return None if str(self.location) == str(self.place) else self.location

    def has(self, file: File) -> bool:
        try:
            open_storage(self.location.url).head(self._part(file).address)
        except NotFound:
            return False
        return True

    def read(self, file: File, columns: Sequence[str]) -> pa.Table:
        """Read the rows of a file of the plan. Refuse a modified file."""
        return read_part(open_storage(self.location.url), self._part(file), columns)

    def _part(self, file: File) -> Part:
        """Address of a file at the current location."""
        return replace(file.part, address=file.address.removeprefix(self.place.prefix))


def find_plan_anywhere(location: str) -> LocatedPlan:
    """Find a plan to inspect. The plan may have been copied or moved."""
    storage = _open_plan(location)
    current = Place(storage.url, "")
    with _no_plan(location):
        document = read(storage, current)
    return LocatedPlan(Place(document.place.url, document.place.prefix), document, current)


def _open_plan(location: str) -> Storage:
    with _no_plan(location):
        return ObjectStorage.open(normalize(location.rstrip("/").removesuffix("/" + FILE)))


@contextmanager
def _no_plan(location: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise NotFound(
            f"there is no plan at {location}", hint="make one with `reclaim plan`"
        ) from error

"""Plans at a location: a folder or a URL."""

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
    """The plan in a folder or at a URL, to apply it: it has to be where it was written."""
    storage = _open_plan(location)
    with _no_plan(location):
        return find(storage, location)


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan to look at, wherever it lies now."""

    place: Place
    """Where it was written."""
    document: PlanDocument
    here: Place
    """Where it was found."""

    @classmethod
    def at(cls, place: Place, document: PlanDocument) -> FoundPlan:
        """A plan that lies where it was written."""
        return cls(place, document, replace(place, url=str(place), prefix=""))

    @property
    def moved_to(self) -> Place | None:
        """Where it lies now, if that is not where it was written."""
        return None if str(self.here) == str(self.place) else self.here

    def has(self, file: File) -> bool:
        try:
            open_storage(self.here.url).head(self._part(file).address)
        except NotFound:
            return False
        return True

    def read(self, file: File, columns: Sequence[str]) -> pa.Table:
        """The rows of one of its files, which must be as it was written."""
        return read_part(open_storage(self.here.url), self._part(file), columns)

    def _part(self, file: File) -> Part:
        """A file of it as it is named from here."""
        return replace(file.part, address=file.address.removeprefix(self.place.prefix))


def find_plan_anywhere(location: str) -> FoundPlan:
    """The plan in a folder or at a URL, to look at: it may have been copied or moved there."""
    storage = _open_plan(location)
    here = Place(storage.url, "")
    with _no_plan(location):
        document = read(storage, here)
    return FoundPlan(Place(document.place.url, document.place.prefix), document, here)


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

"""Delete markers: setting objects aside in a bucket that keeps versions, without copying them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reclaim.buckets import Version, open_bucket
from reclaim.errors import Conflict
from reclaim.storage import Storage
from reclaim.tasks.aside import QUARANTINED, RESTORED, each
from reclaim.tasks.deleting import DELETED, Remove


@dataclass(frozen=True, slots=True)
class Mark(Remove):
    """Deletes, which in such a bucket only writes a marker."""

    @property
    def outcome(self) -> str:
        return QUARANTINED


@dataclass(frozen=True, slots=True)
class Unmark:
    """Takes the markers off again, when what they cover is whole.

    One that has no version any more is no error here: whether it is missed is found out later.
    """

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        each(storage, sizes, self.one)

    def one(self, storage: Storage, address: str, size: int) -> None:
        markers, versions = _of(storage, address)
        if versions and versions[0].size != size:
            raise Conflict(
                f"the last version of {address} has {versions[0].size} bytes instead of {size}"
            )
        if versions:
            open_bucket(storage.url).delete(markers)


@dataclass(frozen=True, slots=True)
class Expunge:
    """Deletes for good what a marker covers, and the marker. What has no marker stays."""

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        each(storage, sizes, self.one)

    def one(self, storage: Storage, address: str, size: int) -> None:  # noqa: ARG002
        markers, versions = _of(storage, address)
        if markers:
            # The markers last: as long as one is there, it is not as if the object were.
            bucket = open_bucket(storage.url)
            bucket.delete(versions)
            bucket.delete(markers)


def _of(storage: Storage, address: str) -> tuple[list[Version], list[Version]]:
    """The markers that cover an object, and its versions, the newest first."""
    found = [one for one in open_bucket(storage.url).versions(address) if one.address == address]
    if found and not found[0].marker:
        return [], [one for one in found if not one.marker]
    return [one for one in found if one.marker], [one for one in found if not one.marker]

"""Delete markers: setting objects aside in a bucket that keeps versions, without copying them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reclaim.buckets import Version, open_bucket
from reclaim.errors import Conflict
from reclaim.storage import Storage
from reclaim.tasks.aside import QUARANTINED, RESTORED, each
from reclaim.tasks.deleting import DELETED, Remove

LARGEST_COPY = 5 * 1024**3
"""More than this S3 does not copy in one request."""


@dataclass(frozen=True, slots=True)
class Mark(Remove):
    """Deletes, which in such a bucket only writes a marker."""

    @property
    def outcome(self) -> str:
        return QUARANTINED


@dataclass(frozen=True, slots=True)
class Unmark:
    """Takes the markers off again, when what they cover is whole.

    What was covered is copied over them first, so that it counts as written now and the next run
    spares it; S3 copies no more than ``LARGEST_COPY`` at once, and larger objects stay old. One
    that has no version any more is no error here: whether it is missed is found out later.
    """

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        each(storage, sizes, self.one)

    def one(self, storage: Storage, address: str, size: int) -> None:
        markers, versions = _of(storage, address)
        if not markers or not versions:
            return
        newest = versions[0]
        if newest.size != size:
            raise Conflict(
                f"the last version of {address} has {newest.size} bytes instead of {size}"
            )
        bucket = open_bucket(storage.url)
        if size > LARGEST_COPY:
            bucket.delete(markers)
            return
        bucket.renew(newest)
        if (found := storage.head(address).size) != size:
            raise Conflict(f"{address} came back with {found} bytes instead of {size}")
        bucket.delete([*markers, newest])


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

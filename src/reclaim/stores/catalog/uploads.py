"""Uploads in parts that were begun in a bucket and never finished: who may give them up.

A writer finishes its uploads while its partition is open. So one may go when its partition is
closed, or is not the repository's at all, and it is older than the margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from reclaim.catalog import Roots
from reclaim.storage.buckets import Upload, open_bucket
from reclaim.stores.observation import Margins

if TYPE_CHECKING:
    from reclaim.stores.catalog.store import CatalogStore


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The unfinished uploads of a repository: those that may be given up, and the others."""

    over: Sequence[Upload]
    young: Sequence[Upload]

    @property
    def size(self) -> int:
        return sum(upload.size for upload in (*self.over, *self.young))


def find_uploads(store: CatalogStore, seen: Roots) -> Unfinished | None:
    """The unfinished uploads of a repository; None where a storage has none of that kind.

    A partition that was opened after the roots were read has only uploads that are young.
    """
    if not store.storage.url.startswith("s3://"):
        return None
    not_closed = seen.open | seen.overdue | seen.in_flight
    uploads = list(open_bucket(store.storage.url).uploads(store.format.prefix))
    addresses = pa.array([upload.address for upload in uploads], pa.string())
    partitions = store.format.describe(addresses).field("guard").to_pylist()
    cutoff = seen.read_at - Margins().objects
    over: list[Upload] = []
    young: list[Upload] = []
    for upload, partition in zip(uploads, partitions, strict=True):
        done = partition not in not_closed and upload.begun_at < cutoff
        (over if done else young).append(upload)
    return Unfinished(over, young)


def abort_uploads(store: CatalogStore, uploads: Sequence[Upload]) -> int:
    """Give uploads up; returns the bytes that this frees.

    Not from a copy of the database: they may be the original's.
    """
    store.check()
    bucket = open_bucket(store.storage.url)
    for upload in uploads:
        bucket.abort(upload)
    return sum(upload.size for upload in uploads)

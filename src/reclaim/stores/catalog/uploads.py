"""Unfinished multipart uploads in a bucket, and their owners.

A writer finishes its uploads while its partition is open. An upload may therefore be aborted if its
partition is closed, or foreign to the repository, and the upload is older than the margin.
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
    """Unfinished uploads of a repository: abandoned uploads, and young uploads."""

    abandoned: Sequence[Upload]
    young: Sequence[Upload]

    @property
    def size(self) -> int:
        return sum(upload.size for upload in (*self.abandoned, *self.young))


def find_uploads(store: CatalogStore, seen: Roots) -> Unfinished | None:
    """Unfinished uploads of a repository; None for storages without multipart uploads.

    A partition opened after the read of the roots has only young uploads.
    """
    if not store.storage.url.startswith("s3://"):
        return None
    not_closed = seen.open | seen.overdue | seen.in_flight
    uploads = list(open_bucket(store.storage.url).uploads(store.format.prefix))
    addresses = pa.array([upload.address for upload in uploads], pa.string())
    partitions = store.format.describe(addresses).field("guard").to_pylist()
    cutoff = seen.read_at - Margins().objects
    abandoned: list[Upload] = []
    young: list[Upload] = []
    for upload, partition in zip(uploads, partitions, strict=True):
        done = partition not in not_closed and upload.begun_at < cutoff
        (abandoned if done else young).append(upload)
    return Unfinished(abandoned, young)


def abort_uploads(store: CatalogStore, uploads: Sequence[Upload]) -> int:
    """Abort uploads; return the number of bytes freed.

    Refuse from a copy of the database: the uploads may belong to the original.
    """
    store.check()
    bucket = open_bucket(store.storage.url)
    for upload in uploads:
        bucket.abort(upload)
    return sum(upload.size for upload in uploads)

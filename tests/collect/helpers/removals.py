"""The ways of removal that the machine of quarantine drives, each with a look past the product.

A removal tells where the catalog lies and how its runs set objects aside. It reads what a bucket
keeps, does what others may do to it, and makes single requests fail or tells of them as steps:
all of it around the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pytest

from reclaim.errors import NotFound, StorageDenied
from reclaim.run.sweep.removal import DeleteMarkers, MoveToQuarantine, UndoableRemoval
from reclaim.storage.buckets import Bucket
from reclaim.testing import FakeClock
from tests.collect.helpers.world import World
from tests.conftest import Backend
from tests.support.servers import SeaweedFS

Stepping = Callable[..., None]
ENABLED, SUSPENDED, OFF = "Enabled", "Suspended", ""
NULL = "null"
"""The id of the version that is written while none are kept, over the one before it."""


class Driver(Protocol):
    """One way of removal, in one place."""

    @property
    def versioning(self) -> str | None:
        """Whether the bucket keeps versions now; None where there is no bucket."""
        ...

    def backend(self, folder: Path) -> Backend:
        """A place for a new catalog."""
        ...

    def removal(self, keep: timedelta) -> UndoableRemoval: ...

    def switch(self, status: str) -> None:
        """Switch the bucket's versioning, or leave it off."""
        ...

    def covered(self, home: str) -> Sequence[bytes]:
        """The bytes that the bucket keeps of an object and does not show."""
        ...

    def write(self, world: World, home: str, data: bytes) -> bool:
        """Write as others do; False if that was over the only copy of what had been set aside."""
        ...

    def take_away(self, world: World, home: str) -> None:
        """Take away what was written by others, as if they had never written it."""
        ...

    def tell(self, patch: pytest.MonkeyPatch, step: Stepping) -> None:
        """Make steps of the requests that go around the storage."""
        ...

    def deny(self, patch: pytest.MonkeyPatch, nth: int) -> Stepping:
        """Make every sixth object stay where it is; gives the step that does it."""
        ...


def at_quarantine(world: World, run: str, home: str) -> str:
    prefix = f"repos/{world.repo.uid}/"
    return f"{prefix}_reclaim/quarantine/{run}/{home.removeprefix(prefix)}"


def read(world: World, address: str) -> bytes | None:
    """What is at an address, if anything is."""
    try:
        return world.storage.get(address)
    except NotFound:
        return None


@dataclass
class FolderDriver:
    """Moves to quarantine, in a folder."""

    versioning: str | None = None

    def backend(self, folder: Path) -> Backend:
        return Backend("embedded", str(folder / "catalog"), None, FakeClock())

    def removal(self, keep: timedelta) -> UndoableRemoval:
        return MoveToQuarantine(keep)

    def switch(self, status: str) -> None:
        pass

    def covered(self, home: str) -> Sequence[bytes]:
        return []

    def write(self, world: World, home: str, data: bytes) -> bool:
        world.storage.put(home, data)
        return True

    def take_away(self, world: World, home: str) -> None:
        world.storage.delete(home)

    def tell(self, patch: pytest.MonkeyPatch, step: Stepping) -> None:
        pass

    def deny(self, patch: pytest.MonkeyPatch, nth: int) -> Stepping:
        sixth = every_sixth(nth)

        def denied(step: str) -> None:
            kind, _, address = step.partition(" ")
            if kind == "move" and sixth(address):
                raise StorageDenied(f"cannot move {address}")

        return denied


def every_sixth(nth: int) -> Callable[[str], bool]:
    """Of the objects that it is asked of, the nth and every sixth after it, however often asked."""
    order: dict[str, int] = {}

    def ask(address: str) -> bool:
        return order.setdefault(address, len(order) + 1) % 6 == nth % 6

    return ask


class Buckets:
    """Buckets of one server, used again by one example after the other.

    It has room for some forty; versioning that was once on can never be off again.
    """

    def __init__(self, server: SeaweedFS) -> None:
        self._server = server
        self.client: Any = boto3.client("s3")
        self._plain = self._versioned = ""

    def take(self, status: str) -> str:
        """The name of a bucket whose versioning is off, on or suspended."""
        if status == OFF:
            if not self._plain or self.status(self._plain) != OFF:
                self._remove(self._plain)
                self._plain = self._new()
            return self._plain
        self._versioned = self._versioned or self._new()
        # A bucket can be suspended only once it has been on.
        for switched in (ENABLED, status):
            self.switch(self._versioned, switched)
        return self._versioned

    def status(self, bucket: str) -> str:
        return str(self.client.get_bucket_versioning(Bucket=bucket).get("Status") or OFF)

    def switch(self, bucket: str, status: str) -> None:
        self.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})

    def _new(self) -> str:
        return self._server.new_bucket().removeprefix("s3://")

    def _remove(self, bucket: str) -> None:
        if not bucket:
            return
        for page in self.client.get_paginator("list_object_versions").paginate(Bucket=bucket):
            rows = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            named = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
            if named:
                self.client.delete_objects(Bucket=bucket, Delete={"Objects": named})
        self.client.delete_bucket(Bucket=bucket)


@dataclass
class BucketDriver(FolderDriver):
    """Moves to quarantine in a bucket: a copy and a delete, whatever versions the bucket keeps."""

    def __init__(self, buckets: Buckets, begins: str) -> None:
        self._buckets = buckets
        self._begins = begins
        self._bucket = self._prefix = ""
        self.versioning: str | None = begins

    def backend(self, folder: Path) -> Backend:
        self._bucket, self._prefix = self._buckets.take(self._begins), uuid4().hex
        self.versioning = self._begins
        url = f"s3://{self._bucket}/{self._prefix}"
        return Backend("server", str(folder / "catalog"), url, FakeClock())

    def switch(self, status: str) -> None:
        if (self.versioning, status) == (SUSPENDED, ENABLED):
            self._forget_deleted()
        self._buckets.switch(self._bucket, status)
        self.versioning = status

    def _forget_deleted(self) -> None:
        """Remove every trace of what was deleted while versioning was suspended.

        SeaweedFS, other than Amazon's S3, keeps such a marker on top of what is written there once
        versioning is on. It is removed only by writing over it.
        """
        client = self._buckets.client
        pages = client.get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}/"):
            for marker in page.get("DeleteMarkers", ()):
                if marker["IsLatest"] and marker["VersionId"] == NULL:
                    named = {"Bucket": self._bucket, "Key": marker["Key"]}
                    client.put_object(**named, Body=b"")
                    for row in self._rows(marker["Key"].removeprefix(f"{self._prefix}/"))[0]:
                        client.delete_object(**named, VersionId=row["VersionId"])

    def write(self, world: World, home: str, data: bytes) -> bool:
        alone = self.versioning == ENABLED or NULL not in self._ids(home)
        world.storage.put(home, data)
        return alone

    def take_away(self, world: World, home: str) -> None:
        """By the id of its version, which leaves what is under it as it was."""
        [latest] = [row for row in self._rows(home)[0] if row["IsLatest"]]
        named = {"Bucket": self._bucket, "Key": self._key(home)}
        self._buckets.client.delete_object(**named, VersionId=latest["VersionId"])

    def tell(self, patch: pytest.MonkeyPatch, step: Stepping) -> None:
        for name in ("cover", "renew", "delete"):
            patch.setattr(Bucket, name, _told(name, getattr(Bucket, name), step))

    def covered(self, home: str) -> Sequence[bytes]:
        under = [row for row in self._rows(home)[0] if not row["IsLatest"]]
        named = {"Bucket": self._bucket, "Key": self._key(home)}
        get = self._buckets.client.get_object
        answers = [get(**named, VersionId=row["VersionId"]) for row in under]
        return [answer["Body"].read() for answer in answers]

    def _key(self, home: str) -> str:
        return f"{self._prefix}/{home}"

    def _rows(self, home: str) -> tuple[list[Any], list[Any]]:
        """The versions of an object, and the markers on it."""
        client, key = self._buckets.client, self._key(home)
        answer = client.list_object_versions(Bucket=self._bucket, Prefix=key)
        versions, markers = (
            [row for row in answer.get(kind, ()) if row["Key"] == key]
            for kind in ("Versions", "DeleteMarkers")
        )
        return versions, markers

    def _ids(self, home: str) -> set[str]:
        return {row["VersionId"] for row in self._rows(home)[0]}


class MarkersDriver(BucketDriver):
    """Delete markers, in a bucket that keeps versions."""

    def removal(self, keep: timedelta) -> UndoableRemoval:
        return DeleteMarkers(keep)

    def deny(self, patch: pytest.MonkeyPatch, nth: int) -> Stepping:
        sixth = every_sixth(nth)
        cover = Bucket.cover

        def denied(self: Bucket, addresses: Sequence[str]) -> Any:
            stuck = [address for address in addresses if sixth(address)]
            rest = [address for address in addresses if address not in stuck]
            markers, failed = cover(self, rest) if rest else ({}, {})
            return markers, failed | dict.fromkeys(stuck, "denied")

        patch.setattr(Bucket, "cover", denied)
        return super().deny(patch, nth)


def _told(name: str, inner: Callable[..., Any], step: Stepping) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        step(f"bucket {name}")
        return inner(*args, **kwargs)

    return call

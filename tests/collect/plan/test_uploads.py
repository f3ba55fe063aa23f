"""Uploads in parts that were never finished, and copies that are too large for one request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import obstore
import pytest

from reclaim.catalog.collection.clones import homes
from reclaim.clock import SystemClock
from reclaim.errors import AnotherDatabase
from reclaim.run.doctor.doctor import examine
from reclaim.storage import ObjectStorage, buckets
from reclaim.storage.buckets import Bucket, Upload, open_bucket
from reclaim.stores.findings import Level
from tests.collect.helpers.versioned import on, set_versioning
from tests.collect.helpers.world import World
from tests.support.servers import SeaweedFS

MEBIBYTE = 1024 * 1024
OLD = timedelta(hours=25)


@pytest.fixture
def remote(s3: SeaweedFS, tmp_path: Path) -> Iterator[World]:
    yield from on(f"{s3.new_bucket()}/{uuid4().hex}", tmp_path)


def begin_upload(world: World, address: str) -> None:
    """Begin an upload in parts, and send one of them."""
    client: Any = boto3.client("s3")
    bucket, _, root = world.storage.url.removeprefix("s3://").partition("/")
    key = f"{root}/{address}"
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 1000)


def partition_of(world: World) -> str:
    """The open partition that the world's own instance writes into."""
    return world.repo.branch("main").put("a", b"1").address.rpartition("/")[0]


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch, remote: World) -> timedelta:
    """Uploads look as if they were begun a day before the world's time."""
    uploads = Bucket.uploads
    begun = remote.clock.now() - OLD

    def older(self: Bucket, prefix: str) -> Iterator[Upload]:
        for upload in uploads(self, prefix):
            yield replace(upload, begun_at=begun)

    monkeypatch.setattr(Bucket, "uploads", older)
    return OLD


def listed(world: World) -> set[str]:
    return {upload.address for upload in open_bucket(world.storage.url).uploads("repos/")}


def test_what_is_nobody_s_any_more_is_given_up(remote: World, aged: timedelta) -> None:
    folder = partition_of(remote)
    remote.backend.close()
    begin_upload(remote, f"{folder}/left")
    store = remote.store()
    [upload] = store.old_uploads()
    assert (upload.address, upload.size) == (f"{folder}/left", 1000)
    assert store.abort_uploads([upload]) == 1000
    assert listed(remote) == set()


def test_a_copy_of_the_database_gives_nothing_up(
    remote: World, aged: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the original's."""
    folder = partition_of(remote)
    remote.backend.close()
    begin_upload(remote, f"{folder}/left")
    store = remote.store()
    monkeypatch.setattr(homes, "same", lambda *_: False)
    with pytest.raises(AnotherDatabase):
        store.abort_uploads(store.old_uploads())
    assert listed(remote) == {f"{folder}/left"}


def test_a_writer_that_is_at_work_is_left_alone(remote: World, aged: timedelta) -> None:
    """However old its upload is: its partition is open."""
    begin_upload(remote, f"{partition_of(remote)}/working")
    assert remote.store().old_uploads() == []


def test_a_young_upload_is_left_alone(remote: World) -> None:
    folder = partition_of(remote)
    remote.backend.close()
    begin_upload(remote, f"{folder}/young")
    remote.clock.set(SystemClock().now())
    assert remote.store().old_uploads() == []


def test_doctor_counts_them(remote: World, aged: timedelta) -> None:
    folder = partition_of(remote)
    remote.backend.close()
    begin_upload(remote, f"{folder}/left")
    catalog = remote.opened()
    [found] = [one for one in examine(catalog, remote.clock) if one.check == "uploads"]
    assert found.level == Level.WARNING
    assert "1 multipart uploads were not finished and take 1000 bytes" in found.sentence
    assert "--abort-uploads sales" in found.hint


@pytest.fixture
def small_copies(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Copies in parts, of something that is small enough to test it."""
    monkeypatch.setattr(buckets, "LARGEST_COPY", 6 * MEBIBYTE)
    monkeypatch.setattr(buckets, "COPIED_PART", 5 * MEBIBYTE)
    return bytes(range(256)) * (12 * MEBIBYTE // 256)


def test_a_large_object_is_moved_in_parts(
    s3: SeaweedFS, small_copies: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = ObjectStorage.open(s3.new_bucket())
    monkeypatch.delattr(obstore, "copy")
    storage.put("large", small_copies)
    storage.move("large", "moved", size=len(small_copies))
    assert storage.get("moved") == small_copies
    storage.copy("moved", "copied")
    assert storage.get("copied") == small_copies
    assert "-" in storage.head("copied").etag


def test_a_large_version_is_renewed_in_parts(s3: SeaweedFS, small_copies: bytes) -> None:
    url = s3.new_bucket()
    set_versioning(url, "Enabled")
    storage = ObjectStorage.open(url)
    storage.put("large", small_copies)
    bucket = open_bucket(url)
    markers, _ = bucket.cover(["large"])
    [kept] = [one for one in bucket.versions_of("large") if not one.marker]
    bucket.renew(kept)
    latest, *_ = bucket.versions_of("large")
    assert markers["large"] != latest.id != kept.id
    assert latest.etag != kept.etag
    assert bucket.same(latest, kept)
    assert storage.get("large") == small_copies

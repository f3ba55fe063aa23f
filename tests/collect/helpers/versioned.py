"""Buckets that keep versions, and what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]

from reclaim.run.sweep.removal import DeleteMarkers
from reclaim.storage.buckets import open_bucket
from reclaim.testing import FakeClock
from tests.collect.helpers.world import Past, World, leftovers, whole
from tests.conftest import Backend

MARKERS = DeleteMarkers()


def set_versioning(url: str, status: str) -> None:
    client: Any = boto3.client("s3")
    name = url.removeprefix("s3://").partition("/")[0]
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})


def on(storage: str, folder: Path) -> Iterator[World]:
    """A catalog with its database in a folder and its objects in a bucket."""
    backend = Backend("server", str(folder / "catalog"), storage, FakeClock())
    yield World.make(backend)
    backend.close()


def versions(world: World) -> Counter[str]:
    """How many versions with bytes each object has, current or not."""
    found = open_bucket(world.storage.url).versions(f"repos/{world.repo.uid}/")
    return Counter(one.address for one in found if not one.marker)


def marked(world: World) -> set[str]:
    """The objects that a marker covers."""
    found = open_bucket(world.storage.url).versions(f"repos/{world.repo.uid}/")
    return {one.address for one in found if one.marker}


def check_back(world: World, past: Past) -> None:
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
    assert leftovers(world.repo) == {}

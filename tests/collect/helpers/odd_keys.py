"""Objects with odd keys, written and removed around everything that would refuse their names."""

from __future__ import annotations

from pathlib import Path

from reclaim.storage.buckets import open_bucket
from reclaim.urls import path_of
from tests.collect.helpers.world import World

BODY = b"odd"


def write_odd_key(world: World, address: str) -> None:
    if path := _local_path(world, address):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(BODY)
    else:
        bucket = open_bucket(world.storage.url)
        bucket._client.put_object(Bucket=bucket.name, Key=bucket._root + address, Body=BODY)


def remove_odd_key(world: World, address: str) -> None:
    if path := _local_path(world, address):
        path.unlink()
    else:
        bucket = open_bucket(world.storage.url)
        bucket._client.delete_object(Bucket=bucket.name, Key=bucket._root + address)


def is_odd_key_there(world: World, address: str) -> bool:
    if path := _local_path(world, address):
        return path.exists()
    bucket = open_bucket(world.storage.url)
    key = bucket._root + address
    page = bucket._client.list_objects_v2(Bucket=bucket.name, Prefix=key, EncodingType="url")
    return bool(page["KeyCount"])


def _local_path(world: World, address: str) -> Path | None:
    if world.storage.url.startswith("s3://"):
        return None
    return Path(path_of(world.storage.url)) / address

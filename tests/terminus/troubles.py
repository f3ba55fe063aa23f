"""Troubles of a store under which no run may go on, each of which somebody mends in the end.

Each makes the trouble, gives what runs must be refused with, and mends it again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.clock import SKEW
from reclaim.errors import Conflict, Corrupt, IncompleteRead, InvalidInput, Refused
from reclaim.lock import LENGTH, REQUEST
from reclaim.model import SnapshotId
from reclaim.stores.terminus.folder import StoreFolder
from reclaim.stores.terminus.labels import file_name
from tests.terminus.server import Server
from tests.terminus.world import World

Refusal = type[Exception] | tuple[type[Exception], ...]
Trouble = Callable[[World, Server], AbstractContextManager[Refusal]]
UNKNOWN = SnapshotId("f" * 40)


def shards_of_a_graph(how: str) -> Trouble:
    """All of a commit graph is away, as its shards are on a disk that is not there."""

    @contextmanager
    def away(world: World, server: Server) -> Iterator[Refusal]:
        shards = sorted({layer[:3] for layer in server.databases[0].commits})
        kept = world.folder.with_name("kept")
        kept.mkdir()
        for shard in shards:
            (world.folder / shard).rename(kept / shard)
            if how == "empty":
                (world.folder / shard).mkdir()
            elif how == "link":
                (world.folder / shard).symlink_to("nowhere")
        yield Refused if how == "link" else (IncompleteRead, Corrupt)
        for shard in shards:
            if how == "empty":
                (world.folder / shard).rmdir()
            elif how == "link":
                (world.folder / shard).unlink()
            (kept / shard).rename(world.folder / shard)
        kept.rmdir()

    return away


@contextmanager
def shard_under_two_names(world: World, server: Server) -> Iterator[Refusal]:
    unused = next(name for n in range(4096) if not (world.folder / (name := f"{n:03x}")).exists())
    alias = world.folder / unused
    alias.symlink_to(server.databases[0].meta[-1][:3])
    yield Refused
    alias.unlink()


@contextmanager
def layer_that_is_a_link(world: World, server: Server) -> Iterator[Refusal]:
    path = world.folder / world.write.path(server.databases[0].meta[-1])
    elsewhere = world.folder.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    yield Refused
    path.unlink()
    elsewhere.rename(path)


@contextmanager
def another_file_system(world: World, server: Server) -> Iterator[Refusal]:
    mounted = (world.folder / server.databases[0].meta[-1][:3]).stat().st_ino
    check, status_of = StoreFolder.check, os.fstat

    def elsewhere(status: os.stat_result) -> os.stat_result:
        if status.st_ino != mounted:
            return status
        return os.stat_result((*status[:2], status.st_dev + 1, *status[3:]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            StoreFolder,
            "check",
            lambda self, address, status: check(self, address, elsewhere(status)),
        )
        patch.setattr(os, "fstat", lambda handle: elsewhere(status_of(handle)))
        yield Refused


@contextmanager
def label_that_names_nothing(world: World, server: Server) -> Iterator[Refusal]:
    world.write.label("dangling", UNKNOWN)
    yield Corrupt
    world.write.unlabel("dangling")


@contextmanager
def label_that_is_a_link(world: World, server: Server) -> Iterator[Refusal]:
    label = world.folder / file_name("alias")
    label.symlink_to(file_name(server.databases[0].name))
    yield Refused
    label.unlink()


def beside(world: World, name: str, data: bytes) -> Path:
    """A file in the store's own folder of Reclaim, written now."""
    path = world.folder / ".reclaim" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    now = world.clock.now().timestamp()
    os.utime(path, (now, now))
    return path


def lock_of(data: bytes) -> Trouble:
    """A lock file as a power cut or a wrong clock leaves it; it is over in its time."""

    @contextmanager
    def held(world: World, server: Server) -> Iterator[Refusal]:
        numbers = [int(path.name) for path in world.folder.glob(".reclaim/lock/*[0-9]")]
        beside(world, f"lock/{max(numbers, default=0) + 1:012d}", data)
        yield Conflict
        world.clock.advance(LENGTH + SKEW + REQUEST)

    return held


def lease_of(data: bytes) -> Trouble:
    @contextmanager
    def unreadable(world: World, server: Server) -> Iterator[Refusal]:
        beside(world, "leases/unreadable.json", data)
        yield Corrupt
        world.store().release_lease("unreadable")

    return unreadable


@contextmanager
def list_that_is_empty(world: World, server: Server) -> Iterator[Refusal]:
    path = beside(world, "condemned/empty.json", b"")
    yield Corrupt
    path.unlink()


YEARS = {"owner": "o", "run": "r", "expires_at": "2030-01-01T00:00:00+00:00"}
LONG = {"snapshot": "0" * 40, "holder": "h", "seconds": 999_999 * 7 * 86_400}

TROUBLES: dict[str, Trouble] = {
    "shards are missing": shards_of_a_graph("missing"),
    "shards are empty": shards_of_a_graph("empty"),
    "shards point nowhere": shards_of_a_graph("link"),
    "a shard has two names": shard_under_two_names,
    "a layer is a link": layer_that_is_a_link,
    "a shard is on another file system": another_file_system,
    "a label names nothing": label_that_names_nothing,
    "a label is a link": label_that_is_a_link,
    "a lock is empty": lock_of(b""),
    "a lock claims years": lock_of(json.dumps(YEARS).encode()),
    "a lease is empty": lease_of(b""),
    "a lease claims years": lease_of(json.dumps(LONG).encode()),
    "a list is empty": list_that_is_empty,
}
ONLY_LOCKED = ("a lock is empty", "a lock claims years")
"""A plan changes nothing, and needs no lock."""


def refuses_long_leases(world: World, layer: SnapshotId) -> None:
    before = sorted(world.folder.glob(".reclaim/leases/*"))
    with pytest.raises(InvalidInput, match="cannot last"):
        world.store().take_lease(layer, holder="h", length=timedelta(weeks=999_999))
    assert sorted(world.folder.glob(".reclaim/leases/*")) == before


def contents_of(folder: Path) -> dict[str, bytes]:
    """Every file of a store, its quarantines included, and not what runs note for themselves."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and (".reclaim" not in path.parts or "quarantine" in path.parts)
    }


def remove(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

"""The past that every schedule begins with: built once a process, brought back in a millisecond.

The branch ``work`` has a commit, a sealed token of a commit that died, and newer changes over it.
There is a branch to merge, an upload to link, an object that lies outside, a run to undo, and a
dead commit to collect.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import Row, select

from reclaim.catalog import Catalog, Repository
from reclaim.catalog.collection.clones.homes import Home
from reclaim.catalog.database.schema import (
    CommitState,
    catalog_info,
    commits,
    epoch_writers,
    metadata,
    repositories,
)
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.staging.partitions import Partition
from reclaim.catalog.staging.physical_addresses import PhysicalAddress
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.storage import Storage
from reclaim.stores.observation import Margins
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.collect.helpers.world import NAME, World, addresses_in
from tests.conftest import Backend
from tests.schedules.building import (
    commit_others,
    commit_taken_back,
    commit_without_cleaning,
    condemn_for_a_run,
    dead_commits,
    seal,
)
from tests.schedules.canonical import canonical
from tests.support.footprints import Footprint
from tests.support.known_ids import known_ids
from tests.support.switching import Switch, SwitchingClock, SwitchingDatabase, SwitchingStorage

WINDOW = timedelta(days=30)
"""The window of the run that can be undone."""
INSTANCES = 5
"""The most tasks that a schedule has."""
FROM_A_CHECKPOINT = {"uncommitted", "uncommitted a minute later", "late uncommitted"}
OF_MORE_RULED = {"revert to the old", "hold others"}
"""Operations on what only some schedules of lifecycle rules begin with."""
MEMORY = Path("/dev/shm")
NUMBERS_GIVEN = "sqlite_sequence"
"""The table in which SQLite counts: a number is never given twice."""
Rows = dict[str, list[tuple[Any, ...]]]
_OPENED = re.compile(r"\bf9b[0-9a-f]{11}_")
"""The begins of the names of partitions, which are times."""
NOT_OF_STRUCTURE = {
    *("created_at", "written_at", "condemned_at", "opened_at", "renewed_at", "closed_at"),
    *("refreshed_at", "length", "expires_at", "started_at", "made_at", "first_at", "last_at"),
    *("path", "size", "checksum", "content_type", "metadata", "message", "committer", "holder"),
    *("epoch", "epoch_writer", "history_version", "version", "objects", "bytes"),
    *("summary", "place", "digest", "process"),
}
"""Columns that a run does not decide by, long after: times, names, counts."""
NUMBERS = {("staging_tokens", "id"), ("staged_entries", "token_id"), ("branches", "token")}
"""Columns with numbers that stand for something, as ids do."""
STRUCTURE = {
    table.name: f"SELECT '{table.name}', "
    + ", ".join(
        f"printf('%032x', {column.name})" if (table.name, column.name) in NUMBERS else column.name
        for column in table.columns
        if column.name not in NOT_OF_STRUCTURE
    )
    + f" FROM {table.name}"
    for table in metadata.tables.values()
    if table is not epoch_writers
}


@dataclass(frozen=True)
class Known:
    """Names of what there is: commits, a run, and an upload to link."""

    dead: str
    committed: str
    quarantined_run: str
    upload: PhysicalAddress
    outside: Path
    taken_back: str = ""
    other: str = ""


LEFT_BY_RUNS = ("runs/", "uncommitted/", "index/", "protected/", "lifecycle/", "epoch/")
"""Folders of what runs write for themselves, and of what only counts."""


class Nobody:
    """Waits for no turn."""

    holds = 0

    def reach(self, name: str, footprint: Footprint) -> None:
        pass

    def see(self, seen: object, *, reads: Collection[str] = ()) -> None:
        pass

    def forgetting(self) -> AbstractContextManager[list[object]]:
        return nullcontext([])

    def keep_snapshot(self) -> None:
        pass

    def release_snapshot(self) -> None:
        pass


class SharedBackend(Backend):
    """A catalog whose instances use one database object: to open one takes no time."""

    database: SwitchingDatabase | None = None
    uid = ""

    def open(self, wrap: Callable[[Storage], Storage] | None = None) -> Catalog:
        if self.database is None:
            return super().open(wrap)
        storage = wrap(self.clocked) if wrap else self.clocked
        return self.instance(self.database, storage)

    def instance(
        self, database: Database, storage: Storage, clock: FakeClock | None = None
    ) -> Catalog:
        home = Home(database, storage, self.uid, registered=True)
        return Catalog(database, storage, clock or self.clock, home)


@dataclass(frozen=True)
class RestingPartition:
    """An open partition of an instance that has worked for a while."""

    instance: str
    partition: Partition
    newest_epoch: int


class Pasts:
    """The pasts of all schedules, each with no more than its operations need.

    A run that can be undone is there only for those who undo it, a checkpoint of a run on
    uncommitted data for those who start from it, and more that lifecycle rules match for those who
    work on that.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[bool, bool, bool], Past] = {}

    def of(self, names: Sequence[str]) -> Past:
        undoable = "undo" in names
        checkpointed = not FROM_A_CHECKPOINT.isdisjoint(names)
        ruled = not OF_MORE_RULED.isdisjoint(names)
        kind = undoable, checkpointed, ruled
        if kind not in self._made:
            with known_ids([]):
                self._made[kind] = Past(undoable=undoable, checkpointed=checkpointed, ruled=ruled)
        return self._made[kind]

    def close(self) -> None:
        for past in self._made.values():
            past.close()


class Past:
    """A catalog as it was at one time; ``restore`` brings it back in its place."""

    def __init__(
        self, *, undoable: bool = True, checkpointed: bool = False, ruled: bool = False
    ) -> None:
        self.undoable = undoable
        self.checkpointed = checkpointed
        self.ruled = ruled
        self.folder = Path(
            tempfile.mkdtemp(prefix="reclaim-schedules-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        location = self.folder / "catalog"
        self.clock = FakeClock()
        self.backend = SharedBackend("embedded", str(location), None, self.clock)
        self.world = World.make(self.backend)
        # The argument must hold without the margin, which is only a second belt.
        self.world.margins = Margins(objects=timedelta(0))
        self.objects = location / "objects"
        self.known = self._build()
        self.partitions = [self._open_partition() for _ in range(INSTANCES)]
        self.now = self.clock.now()
        self.repo_row = self._repository_row()
        self.committed = self._committed()
        self._rows: dict[str, int] = {}
        self._contents: dict[str, tuple[int, int] | None] = {}
        self._keep(location / "catalog.db")

    def close(self) -> None:
        for database in (self.backend.database, *self.databases):
            assert database is not None
            database.close()
        self._live.close()
        shutil.rmtree(self.folder)

    def restore(self, *, cleaned: bool = True) -> None:
        """Bring the catalog back as it was; on request with rows that wait for the cleaner."""
        self.clock.set(self.now)
        self._restore_rows(self._cleaned if cleaned else self._uncleaned)
        empty: list[str] = []
        there = _scan(self.objects, empty)
        for path, (stamp, data) in self._files.items():
            if there.pop(path, None) != stamp:
                file = self.objects / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                os.utime(file, ns=(stamp[1], stamp[1]))
        for path in there:
            self._remove(self.objects / path)
        for path in empty:
            self._remove_empty(self.objects / path)
        self.world.repo = self.world.other()

    def _restore_rows(self, rows: Rows) -> None:
        """Bring back the rows of tables that have changed.

        A copy of the whole file would be a new schema to each connection: it would prepare all its
        statements again.
        """
        with self._live:
            self._live.execute("BEGIN IMMEDIATE")
            for name, kept in rows.items():
                if self._live.execute(f"SELECT * FROM {name}").fetchall() != kept:
                    self._live.execute(f"DELETE FROM {name}")
                    if kept:
                        values = ", ".join("?" * len(kept[0]))
                        self._live.executemany(f"INSERT INTO {name} VALUES ({values})", kept)

    def _remove(self, file: Path) -> None:
        """Remove a file, and the folders that were made for it: a collector looks at those too."""
        file.unlink()
        self._remove_empty(file.parent)

    def _remove_empty(self, place: Path) -> None:
        for folder in (place, *place.parents):
            if folder == self.objects or any(folder.iterdir()):
                return
            folder.rmdir()

    def instance(self, number: int, switch: Switch, *, warm: bool = True) -> Catalog:
        """An instance of the catalog for a task. A warm one has its partition open."""
        database = self.databases[number]
        database.switch = switch
        storage = SwitchingStorage(self.backend.clocked, switch, database)
        catalog = self.backend.instance(database, storage, SwitchingClock(self.clock, switch))
        if warm:
            resting = self.partitions[number]
            partition = replace(resting.partition)
            catalog._partitions.instance = resting.instance
            catalog._partitions._open[partition.repo_uid] = partition
            catalog._partitions._last_opened = partition.opened_at
            catalog._partitions.epochs._newest[partition.repo_uid] = resting.newest_epoch
        return catalog

    def copied_database(self, storage: Storage) -> Catalog:
        """An instance on a copy of the database as it is now, and on the same storage."""
        file = self.folder / "copy.db"
        with closing(sqlite3.connect(file)) as copy:
            self._live.backup(copy)
        return self.backend.instance(Database.open(f"sqlite:///{file}"), storage)

    def fingerprint(self, touched: Footprint | None) -> Hashable:
        """What there is: rows, objects and the time. Only what a step has touched is looked at."""
        if touched is None:
            # Of objects only what has changed since: all else is the same in every schedule.
            self._contents = {}
            self._rows = {}
        for name in metadata.tables if touched is None else touched.writes:
            if name in metadata.tables:
                for table in (name, NUMBERS_GIVEN):
                    rows = self._live.execute(f"SELECT * FROM {table}")
                    self._rows[table] = hash(frozenset(rows))
            elif name.startswith("/"):
                self._look_at(name[1:])
        return (
            hash(frozenset(self._rows.items())),
            hash(frozenset(self._contents.items())),
            self.clock.now(),
        )

    def _look_at(self, address: str) -> None:
        """Look at an object, and whether the folders that it lies in are there."""
        place = self.objects / address
        try:
            self._contents[address] = (hash(place.read_bytes()), place.stat().st_mtime_ns)
        except OSError:
            self._contents[address] = None
            # It may be a folder.
            self._contents[f"{place}/"] = (0, 0) if place.is_dir() else None
        for folder in place.parents:
            if folder == self.objects:
                return
            self._contents[f"{folder}/"] = (0, 0) if folder.is_dir() else None

    def state(self) -> bytes:
        """All that a later reader could see: every row, every object, and the time.

        States that differ only in their ids are the same. How often an epoch was counted is left
        out as well.
        """
        rows = [
            f"{name} {row}"
            for name in metadata.tables
            if name != epoch_writers.name
            for row in self._live.execute(f"SELECT * FROM {name}")
        ]
        objects = [f"{path} {size}" for path, size in self._objects_of_users()]
        return _digest(f"{canonical([*rows, *objects])} {self.clock.now()}")

    def structure(self, needed: Mapping[str, Collection[str]]) -> bytes:
        """The states of things, and who refers to whom: what a run decides by, long after.

        ``needed`` has for each metarange the addresses that it needs. Names, sizes, times and
        counts are left out.
        """
        rows = [
            str(row) for statement in STRUCTURE.values() for row in self._live.execute(statement)
        ]
        objects = [path for path, _ in self._objects_of_users()]
        uses = [f"{metarange} {address}" for metarange in needed for address in needed[metarange]]
        return _digest(canonical([_OPENED.sub("", line) for line in (*rows, *objects, *uses)]))

    def _objects_of_users(self) -> Iterator[tuple[str, int]]:
        for path, (size, _) in _scan(self.objects).items():
            if not any(f"/_reclaim/{folder}" in path for folder in LEFT_BY_RUNS):
                yield path, size

    def _build(self) -> Known:
        world, clock = self.world, self.clock
        repo = world.repo
        main = repo.branch("main")
        for path in ("a", "b"):
            main.put(path, f"main {path}".encode())
            main.commit(f"main {path}")
        clock.advance(days=2)
        run = self._set_aside(repo) if self.undoable else ""
        if self.checkpointed:
            # From it optimized runs start.
            world.apply(world.uncommitted(Mode.FULL, allowed_fraction=1.0))
        dead = dead_commits(repo, "dead", clock)
        side = repo.create_branch("side", "main")
        side.put("s", b"side s")
        side.commit("side")
        work = repo.create_branch("work", "main")
        committed = commit_without_cleaning(work)
        more = (commit_taken_back(repo, committed), commit_others(repo)) if self.ruled else ()
        gone = repo.create_branch("gone", "main")
        gone.put("g", b"dropped g")
        repo.delete_branch("gone")
        condemn_for_a_run(repo, main.stat("b").address)
        repo.change_settings(hard_delete=True)
        outside = self.folder / "outside"
        outside.write_bytes(b"outside")
        upload = self._stage(repo)
        work.stage("e", outside.as_uri())
        self.backend.close()
        clock.advance(minutes=1)
        return Known(dead, committed, run, upload, outside, *more)

    def _set_aside(self, repo: Repository) -> str:
        """A run that can be undone."""
        dead_commits(repo, "taken", self.clock)
        self.clock.advance(days=2)
        plan = self.world.plan(allowed_fraction=1.0)
        return self.world.apply(plan, removal=MoveToQuarantine(WINDOW)).run

    def _stage(self, repo: Repository) -> PhysicalAddress:
        """A commit that died with two changes, and newer ones over and beside them."""
        work = repo.branch("work")
        for path in ("n", "m"):
            work.put(path, f"sealed {path}".encode())
        seal(work)
        for path in ("n", "k"):
            work.put(path, f"staged {path}".encode())
        upload = work.get_physical_address("l", valid=timedelta(days=1))
        self.backend.clocked.put(upload.address, b"uploaded l")
        return upload

    def _repository_row(self) -> Row[Any]:
        query = select(repositories).where(repositories.c.name == NAME)
        with self.world.opened()._database.read() as connection:
            return connection.execute(query).one()

    def _committed(self) -> frozenset[str]:
        """The addresses that commits need, all but of those whose bytes are gone or set aside."""
        repo = self.world.other()
        live = [row for row in raw.rows(repo, commits) if row.state == CommitState.LIVE]
        return frozenset().union(*(addresses_in(repo, row.metarange) for row in live))

    def _open_partition(self) -> RestingPartition:
        catalog = self.backend.open()
        with catalog._partitions.use(self.world.repo.uid) as partition:
            pass
        newest = catalog._partitions.epochs._newest[partition.repo_uid]
        return RestingPartition(catalog._partitions.instance, replace(partition), newest)

    def _keep(self, file: Path) -> None:
        """Keep what there is, with instances whose partitions stay open as if they lived on."""
        empty: list[str] = []
        _scan(self.objects, empty)
        for path in empty:
            self._remove_empty(self.objects / path)
        self._live = sqlite3.connect(file, check_same_thread=False)
        self._uncleaned = self._all_rows()
        self.world.opened().repository(NAME).clean()
        self._cleaned = self._all_rows()
        self._files = {
            path: (stamp, (self.objects / path).read_bytes())
            for path, stamp in _scan(self.objects).items()
        }
        self.backend.close()
        url = f"sqlite:///{file}"
        self.databases = [self._database(url) for _ in range(INSTANCES)]
        self.backend.uid = self._live.execute(
            f"SELECT value FROM {catalog_info.name} WHERE key = 'uid'"
        ).fetchone()[0]
        self.backend.database = self._database(url)

    def _all_rows(self) -> Rows:
        """The rows of all tables, in the order in which a reader gets them."""
        names = (*metadata.tables, NUMBERS_GIVEN)
        return {name: self._live.execute(f"SELECT * FROM {name}").fetchall() for name in names}

    @staticmethod
    def _database(url: str) -> SwitchingDatabase:
        opened = Database.open(url)
        database = SwitchingDatabase(opened._engine, opened.name, Nobody())
        with database.read():
            pass  # What a first connection asks, no task is to see.
        return database


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _scan(folder: Path, empty: list[str] | None = None) -> dict[str, tuple[int, int]]:
    """The files below a folder: path → size and time. ``empty`` gets folders without anything."""
    files: dict[str, tuple[int, int]] = {}
    pending = [""]
    while pending:
        place = pending.pop()
        with os.scandir(folder / place) as listing:
            entries = list(listing)
            if empty is not None and not entries:
                empty.append(place)
            for entry in entries:
                path = f"{place}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{path}/")
                else:
                    about = entry.stat(follow_symlinks=False)
                    files[path] = (about.st_size, about.st_mtime_ns)
    return files

"""Doctor: whether a catalog and its storage are fit for collecting, one finding at a time.

It changes nothing but for a probe that it writes and removes. A *problem* is what a run would stop
at, or data that is missing; a *warning* is worth a look.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from reclaim.buckets import Upload
from reclaim.catalog import Catalog, Collecting, Roots, migrations
from reclaim.catalog.addresses import new_uid
from reclaim.clock import SKEW, Clock
from reclaim.errors import ClockSkew, Corrupt, NotFound, ReclaimError, StorageAhead
from reclaim.model import Run, SnapshotId, StoredObject
from reclaim.run import machine
from reclaim.run.decide import KEEPS_ALL, decide
from reclaim.run.uploads import find_uploads
from reclaim.run.verify import Advance, expected_objects, verify
from reclaim.storage import ObjectStorage
from reclaim.stores.catalog import CatalogStore
from reclaim.tasks.parts import decode
from reclaim.urls import is_odd

TOO_OLD = timedelta(days=30)
NAMED = 5
"""How many of several things a sentence names."""


class Level(StrEnum):
    OK = "ok"
    SKIPPED = "not checked"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    level: Level
    check: str
    sentence: str
    hint: str = ""
    repository: str = ""
    exit_code: int = 0
    """Of a problem: the exit code of the error that a run would end with."""


def failed(check: str, error: ReclaimError, repository: str = "") -> Finding:
    """A finding that is an error."""
    return Finding(
        Level.PROBLEM, check, error.message, error.hint or "", repository, error.exit_code
    )


def examine_machine() -> Iterator[Finding]:
    """Java and Spark, without starting either."""
    java, spark = machine.java(), machine.spark()
    if java is None:
        yield Finding(
            Level.WARNING,
            "java",
            "there is no Java on this machine",
            f"plan, apply and gc need Java {machine.OLDEST_JAVA} or newer, or a Connect server",
        )
    elif 0 < machine.major(java[1]) < machine.OLDEST_JAVA:
        yield Finding(
            Level.WARNING,
            "java",
            f"{java[0]} is Java {java[1]}",
            f"Spark needs Java {machine.OLDEST_JAVA} or newer",
        )
    else:
        yield Finding(Level.OK, "java", f"Java {java[1] or '(version unknown)'} at {java[0]}")
    if spark is None:
        yield Finding(
            Level.WARNING,
            "spark",
            "PySpark is not installed",
            "plan, apply and gc need it: pip install 'reclaim[spark]'",
        )
    else:
        yield Finding(Level.OK, "spark", f"PySpark {spark} is installed")


def examine(
    catalog: Catalog, clock: Clock, *, deep: bool = False, advance: Advance | None = None
) -> Iterator[Finding]:
    """Everything about an opened catalog. ``deep`` reads all containers and lists all data.

    With ``advance``, which is told of each object, the bytes of all live data are read as well.
    """
    version = migrations.newest()
    yield Finding(Level.OK, "database", f"{catalog.database_name}, schema version {version}")
    yield from _permissions(catalog)
    yield _home(catalog)
    yield from _storage(catalog, clock)
    for repository in catalog.collectable():
        try:
            yield from _Examination(repository, clock, deep=deep, advance=advance).findings()
        except ReclaimError as error:
            yield failed("repository", error, repository.name)


def old_uploads(repository: Collecting) -> Sequence[Upload]:
    """The uploads in parts that were never finished and are nobody's any more."""
    unfinished = find_uploads(repository, repository.observe(_nowhere(), ""))
    return unfinished.over if unfinished else ()


def unknown_partitions(repository: Collecting) -> list[str]:
    """Partitions that are in the storage and that the database does not know."""
    listed = _listed_partitions(repository)
    return _unknown(listed, repository.observe(_nowhere(), ""))


def _permissions(catalog: Catalog) -> Iterator[Finding]:
    """A database in a file is as private as the file; who can read it can read all names."""
    files = catalog.database_files
    open_to_others = [str(file) for file in files if file.stat().st_mode & 0o077]
    if open_to_others:
        sentence = f"others than the owner can read or write {_some(open_to_others)}"
        hint = f"if that is not meant: chmod 600 {shlex.join(open_to_others)}"
        yield Finding(Level.WARNING, "permissions", sentence, hint)
    elif files:
        yield Finding(Level.OK, "permissions", "only the owner can read the database")


def _home(catalog: Catalog) -> Finding:
    """Whether a copy of the database could be told from it."""
    try:
        catalog.home.check()
    except ReclaimError as error:
        return failed("home", error)
    if catalog.home.identity() is None:
        hint = "let the account of the catalog execute pg_control_system()"
        sentence = "the database cannot be asked who it is, so a copy of it may not be noticed"
        return Finding(Level.SKIPPED, "home", sentence, hint)
    return Finding(Level.OK, "home", "this database is the one that may collect in the storage")


def _storage(catalog: Catalog, clock: Clock) -> Iterator[Finding]:
    storage = catalog.storage
    probe = f"_reclaim_probe/{new_uid()}"
    try:
        storage.put(probe, b"")
        told = storage.head(probe).last_modified
        now = clock.now()
        storage.delete(probe)
    except ReclaimError as error:
        yield failed("storage", error)
        return
    yield Finding(Level.OK, "storage", f"{storage.url} can be written, read and deleted from")
    off = abs(told - now)
    if off > SKEW:
        said = f"this machine's clock says {now:%F %T} UTC and the storage's {told:%F %T} UTC"
        yield failed("clock", ClockSkew(said, hint="set the clock; no run starts until then"))
    else:
        yield Finding(Level.OK, "clock", f"{off.total_seconds():.0f} s from the storage's")
    yield from _bucket(storage.url)


def _bucket(url: str) -> Iterator[Finding]:
    if not url.startswith("s3://"):
        return
    found = machine.kept_by_bucket(url)
    if found is None:
        hint = "pip install 'reclaim[s3]', with the right to read the bucket's settings"
        sentence = "whether the bucket frees what is deleted could not be asked"
        yield Finding(Level.SKIPPED, "bucket", sentence, hint)
    elif found:
        hint = "let a lifecycle rule of the bucket remove old versions"
        yield Finding(Level.WARNING, "bucket", "; ".join(found), hint)
    else:
        yield Finding(Level.OK, "bucket", "neither versioning nor a lock keeps what is deleted")


class _Examination:
    """One repository. What is listed is listed before the database is read, but for containers."""

    def __init__(
        self, repository: Collecting, clock: Clock, *, deep: bool, advance: Advance | None
    ) -> None:
        self._repository = repository
        self._store = CatalogStore(repository)
        self._clock = clock
        self._deep = deep
        self._advance = advance

    def findings(self) -> Iterator[Finding]:
        repository = self._repository
        if repository.deleted:
            return
        listed = _listed_partitions(repository)
        held = _nowhere()
        seen = self._repository.observe(held, "")
        yield self._partitions(_unknown(listed, seen))
        yield from self._left_over(seen)
        yield from self._uploads(seen)
        yield self._runs(repository.runs())
        live = decide(
            KEEPS_ALL,
            snapshots=seen.history.snapshots,
            refs=seen.history.refs,
            leases=seen.leases,
            now=seen.read_at,
        ).live
        yield self._missing(seen, live, held)
        if self._advance is not None:
            yield self._bytes({seen.metaranges[one] for one in live} - {""}, self._advance)

    def _say(self, level: Level, check: str, sentence: str, hint: str = "") -> Finding:
        return Finding(level, check, sentence, hint, self._repository.name)

    def _partitions(self, unknown: list[str]) -> Finding:
        name = self._repository.name
        adopt = f"reclaim doctor --adopt-partitions {name}"
        try:
            self._repository.check_epoch()
        except ReclaimError as error:
            return failed("partitions", error, name)
        if unknown:
            sentence = f"the storage has {len(unknown)} partitions that the database does not know"
            hint = f"if this database is the right one: {adopt}"
            ahead = StorageAhead(f"{sentence}: {_some(unknown)}", hint=hint)
            return failed("partitions", ahead, name)
        return self._say(Level.OK, "partitions", "the database knows all that are in the storage")

    def _left_over(self, seen: Roots) -> Iterator[Finding]:
        """What writers, readers and runs that died have left."""
        repository = self._repository
        if overdue := len(seen.overdue):
            hint = "their writers have died; the next apply closes them"
            sentence = f"{overdue} partitions are open and overdue"
            yield self._say(Level.WARNING, "writers", sentence, hint)
        if in_flight := len(seen.in_flight):
            hint = "commit or reset the branches with uncommitted changes; then they are closed"
            sentence = f"{in_flight} overdue partitions are kept for commits that did not land"
            yield self._say(Level.WARNING, "writers", sentence, hint)
        if lapsed := repository.lapsed():
            holders = _some(sorted({lease.holder for lease in lapsed}))
            hint = f"their holders have died; see `reclaim lease list {repository.name}`"
            sentence = f"{len(lapsed)} leases have lapsed: {holders}"
            yield self._say(Level.WARNING, "leases", sentence, hint)
        marks = sum(state == "provisional" for state in seen.states.values())
        if marks and repository.working() is None:
            hint = "a run has died; the next gc, apply, undo or expire takes the marks off"
            sentence = f"{marks} commits are marked by a run that no longer works"
            yield self._say(Level.WARNING, "marks", sentence, hint)

    def _uploads(self, seen: Roots) -> Iterator[Finding]:
        """Parts of uploads that were never finished: a bucket keeps them, and no listing shows."""
        try:
            unfinished = find_uploads(self._repository, seen)
        except ReclaimError as error:
            yield self._say(Level.SKIPPED, "uploads", error.message, error.hint or "")
            return
        if unfinished is None:
            return
        count = len(unfinished.over) + len(unfinished.young)
        sentence = f"{count} uploads in parts were not finished and take {unfinished.size} bytes"
        if unfinished.over:
            hint = (
                f"{len(unfinished.over)} of them are nobody's any more; give them up with: "
                f"reclaim doctor --abort-uploads {self._repository.name}"
            )
            yield self._say(Level.WARNING, "uploads", sentence, hint)
        else:
            yield self._say(Level.OK, "uploads", sentence)

    def _runs(self, runs: list[Run]) -> Finding:
        collects = [run for run in runs if run.kind == "collect"]
        newest = collects[0] if collects else None
        if newest and newest.state in ("started", "partial") and not self._repository.working():
            sentence = f"the run {newest.id} was left {newest.state}"
            return self._say(
                Level.WARNING, "runs", sentence, f"finish it: reclaim apply {newest.place}"
            )
        done = max((run.started_at for run in collects if run.state == "done"), default=None)
        return self._age(done)

    def _age(self, done: datetime | None) -> Finding:
        name = self._repository.name
        since = done or self._repository.created_at
        if self._clock.now() - since > TOO_OLD:
            said = f"the last finished run is of {done:%F}" if done else "it was never collected"
            hint = f"run `reclaim gc {name}` by a scheduler"
            return self._say(Level.WARNING, "runs", said, hint)
        return self._say(
            Level.OK, "runs", f"last collected {done:%F}" if done else "never collected, and new"
        )

    def _bytes(self, metaranges: Iterable[str], advance: Advance) -> Finding:
        """Live objects whose bytes are not those that were put."""
        storage, format = self._store.storage, self._store.format
        containers: dict[str, dict[str, Any]] = {}
        for metarange in sorted(metaranges):
            # What is missing was told of before.
            with suppress(NotFound):
                for container in format.containers(storage, metarange).to_pylist():
                    containers[container["address"]] = container
        objects = expected_objects(self._repository, format, containers.values())
        verified = verify(storage, objects, advance)
        notes = []
        if verified.without_checksum:
            notes.append(f"of {verified.without_checksum} more only the size is known")
        if verified.gone:
            notes.append(f"{verified.gone} were gone when they were to be read")
        if verified.damaged:
            more = verified.damaged - len(verified.names)
            names = ", ".join(verified.names) + (f" and {more} more" if more else "")
            sentence = f"{verified.damaged} live objects are damaged: {names}"
            hint = "restore them from a backup or another copy, before anything else runs"
            corrupt = Corrupt("; ".join([sentence, *notes]), hint=hint)
            return failed("bytes", corrupt, self._repository.name)
        sentence = f"{verified.compared} objects have the SHA-256 of what was put"
        return self._say(Level.OK, "bytes", "; ".join([sentence, *notes]))

    def _missing(self, seen: Roots, live: Collection[SnapshotId], held: ObjectStorage) -> Finding:
        """Live objects that are not there. Asked for once more, for a run may be at work."""
        storage = self._store.storage
        prefix = self._repository.prefix
        folder = prefix.rstrip("/") if self._deep else f"{prefix}_reclaim/meta"
        there = _addresses(storage.list(folder))
        checked = 0
        missing = []
        for address in self._needed(seen, live, held, there):
            checked += 1
            if address not in there:
                with suppress(NotFound):
                    storage.head(address)
                    continue
                missing.append(address)
        if missing:
            sentence = f"{len(missing)} live objects are missing: {_some(missing)}"
            hint = "restore them from a backup or another copy, before anything else runs"
            return failed("objects", Corrupt(sentence, hint=hint), self._repository.name)
        what = "containers and data" if self._deep else "containers (--deep checks data as well)"
        return self._say(Level.OK, "objects", f"all {checked} are there of {what}")

    def _needed(
        self,
        seen: Roots,
        live: Iterable[SnapshotId],
        held: ObjectStorage,
        there: set[str],
    ) -> Iterator[str]:
        """The containers of all live snapshots; what those list, of tips or, if deep, of all."""
        named = [
            *(ref.snapshot for ref in seen.history.refs),
            *(one.snapshot for one in seen.leases),
        ]
        tops = {seen.metaranges[one] for one in live} - {""}
        opened = {seen.metaranges[one] for one in named} - {""}
        yield from sorted(tops)
        storage, format = self._store.storage, self._store.format
        read: set[str] = set()
        for top in sorted(tops if self._deep else opened):
            if top not in there:
                continue
            for container in format.containers(storage, top).to_pylist():
                address = container["address"]
                if address in read:
                    continue
                read.add(address)
                yield address
                if self._deep and address in there:
                    entries = format.entries(storage, container, paths=False)
                    yield from entries.column("address").to_pylist()
        if self._deep:
            for file in seen.files:
                found = decode(held.get(file), file).column("address").to_pylist()
                # An upload that is pending need not be there yet.
                yield from (address for address in found if address in there)


def _listed_partitions(repository: Collecting) -> set[str]:
    storage = repository.storage
    branches, _ = storage.folders(f"{repository.prefix}branches")
    places = chain(branches, [f"{repository.prefix}_reclaim/meta"])
    return {
        folder.rstrip("/").rsplit("/", 1)[-1]
        for place in places
        for folder in storage.folders(place)[0]
        if not is_odd(folder)
    }


def _unknown(listed: set[str], seen: Roots) -> list[str]:
    return sorted(listed - seen.closed - seen.overdue - seen.open)


def _addresses(found: Iterable[StoredObject]) -> set[str]:
    return {stored.address for stored in found}


def _nowhere() -> ObjectStorage:
    """A storage in memory, for what an observation writes down."""
    return ObjectStorage.open("memory://")


def _some(names: list[str]) -> str:
    shown = ", ".join(islice(names, NAMED))
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"

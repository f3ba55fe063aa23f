"""Doctor: check stores and their storage before collections, as a sequence of findings.

Read-only, except for a probe object. A *problem* would stop a run, or is missing data; a *warning*
needs attention.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reclaim.catalog import Catalog
from reclaim.catalog.database import migrations
from reclaim.clock import SKEW, Clock
from reclaim.errors import ClockSkew, ReclaimError
from reclaim.ids import new_uid, short
from reclaim.policy import unmatched_rules
from reclaim.run.doctor import environment
from reclaim.run.doctor.last_run import find_last, find_overdue
from reclaim.run.plan.stored_policy import find_stored
from reclaim.run.purge.orphans import find_orphans
from reclaim.run.roots.interrupted_runs import can_be_given_up, find_interrupted
from reclaim.run.roots.promises import unreadable_record
from reclaim.run_record import COLLECT, Action, RunRecord
from reclaim.storage import Storage
from reclaim.stores.abilities import Examines, ShowsHistory
from reclaim.stores.base import Store
from reclaim.stores.findings import Advance, Finding, Level, abbreviate, failed
from reclaim.stores.registry import find_all, name_of


def examine_machine() -> Iterator[Finding]:
    """Check for Java and Spark, without starting either."""
    java, spark = environment.java(), environment.spark()
    if java is None:
        yield Finding(
            Level.WARNING,
            "java",
            "there is no Java on this machine",
            f"plan, apply and gc need Java {environment.OLDEST_JAVA} or newer, a Connect server, "
            "or --engine local",
        )
    elif 0 < environment.major(java[1]) < environment.OLDEST_JAVA:
        yield Finding(
            Level.WARNING,
            "java",
            f"{java[0]} is Java {java[1]}",
            f"Spark needs Java {environment.OLDEST_JAVA} or newer",
        )
    else:
        yield Finding(Level.OK, "java", f"Java {java[1] or '(version unknown)'} at {java[0]}")
    if spark is None:
        yield Finding(
            Level.WARNING,
            "spark",
            "PySpark is not installed",
            "plan, apply and gc need it, or --engine local: pip install 'reclaim[spark]'",
        )
    else:
        yield Finding(Level.OK, "spark", f"PySpark {spark} is installed")


def examine(
    catalog: Catalog, clock: Clock, *, deep: bool = False, advance: Advance | None = None
) -> Iterator[Finding]:
    """Examine an opened catalog. ``deep`` reads all containers and lists all data.

    With ``advance``, called for each object, the bytes of all live data are read as well.
    """
    version = migrations.newest()
    yield Finding(Level.OK, "database", f"{catalog.database_name}, schema version {version}")
    yield from _permissions(catalog)
    yield _home(catalog)
    yield from _storage(catalog.storage, clock, probe=f"_reclaim_probe/{new_uid()}")
    for store in find_all(catalog):
        if not store.deleted:
            yield from _inside(store, deep=deep, advance=advance)


def examine_store(
    store: Store, *, deep: bool = False, advance: Advance | None = None
) -> Iterator[Finding]:
    """Examine a store outside the catalog."""
    try:
        store.check()
    except ReclaimError as error:
        yield failed("store", error, store.name)
        return
    yield Finding(Level.OK, "store", f"{store.kind} store at {store.storage.url}", "", store.name)
    _, prefix = store.place(new_uid())
    yield from _storage(store.storage, store.clock, probe=f"{prefix}probe")
    yield from _inside(store, deep=deep, advance=advance)


def _inside(store: Store, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
    """Findings inside a store: common to all stores, and specific to its kind."""
    try:
        if isinstance(store, Examines):
            yield from store.findings(deep=deep, advance=advance)
        yield from _leases(store, store.name, name_of(store.kind, store.name, store.uid))
        yield from _policy(store)
        yield from _unreadable_records(store)
        yield from _lock(store)
        yield _runs(store)
        yield from _orphans(store)
    except ReclaimError as error:
        yield failed("repository", error, store.name)


def _leases(store: Store, name: str, named: str) -> Iterator[Finding]:
    lapsed = [lease for lease, is_valid in store.leases() if not is_valid]
    if lapsed:
        holders = abbreviate(sorted({lease.holder for lease in lapsed}))
        hint = f"their holders have died; see `reclaim lease list {named}`"
        sentence = f"{len(lapsed)} leases have lapsed: {holders}"
        yield Finding(Level.WARNING, "leases", sentence, hint, name)


def _policy(store: Store) -> Iterator[Finding]:
    """Policy stored with a store. An unreadable policy stops its runs."""
    try:
        stored = find_stored(store)
        if stored is None:
            return
        if stored.policy.matches and isinstance(store, ShowsHistory):
            unmatched = unmatched_rules(stored.policy, store.current_history().refs)
            if unmatched:
                globs = abbreviate([match.glob for match in unmatched])
                hint = "see `reclaim policy validate`; correct the name, or make the ref"
                sentence = f"rules of the stored policy match no ref: {globs}"
                yield Finding(Level.WARNING, "policy", sentence, hint, store.name)
                return
        sentence = f"stored {stored.set_at:%F %T} UTC"
        yield Finding(Level.OK, "policy", sentence, "", store.name)
    except ReclaimError as error:
        yield failed("policy", error, store.name)


def _unreadable_records(store: Store) -> Iterator[Finding]:
    """Unreadable run records. Each stops every plan."""
    for run in store.runs():
        if not run.allows(Action.ANOTHER):
            yield failed("records", unreadable_record(run), store.name)


def _lock(store: Store) -> Iterator[Finding]:
    """Lock, if held, and whether its holder is known to have died."""
    lock = store.lock_state()
    if lock is None:
        return
    free = f"free at {lock.free_at:%F %T} UTC"
    if why := lock.why_not_released():
        sentence = f"run {lock.run} holds the lock: {why}; unless renewed, the lock is {free}"
        yield Finding(Level.OK, "lock", sentence, "", store.name)
        return
    named = name_of(store.kind, store.name, store.uid)
    sentence = f"run {lock.run} holds the lock and has died: {lock.process} has ended"
    hint = f"release the lock: reclaim lock release {named}; otherwise it is {free}"
    yield Finding(Level.WARNING, "lock", sentence, hint, store.name)


def _runs(store: Store) -> Finding:
    """Whether runs finish, and often enough."""
    named = name_of(store.kind, store.name, store.uid)
    collects = [run for run in store.runs() if run.kind == COLLECT]
    newest = collects[0] if collects else None
    purging = [run.id for run in collects if run.purging]
    lock = store.lock_state()
    at_work = lock is not None and lock.why_not_released()
    if purging and not at_work:
        name = short(purging[0])
        sentence = f"the purge of the quarantine of run {name} is unfinished"
        hint = f"finish it: reclaim purge {named} --run {name}"
        return Finding(Level.WARNING, "runs", sentence, hint, store.name)
    unfinished = [newest] if newest and newest.unfinished else []
    # Interrupted lifecycle runs stay unfinished next to later runs.
    unfinished += find_interrupted(store)
    if unfinished and not at_work:
        return _unfinished(store, unfinished[0])
    done = find_last(collects)
    if (overdue := find_overdue(store, collects)) is not None:
        sentence, hint = overdue
        return Finding(Level.WARNING, "runs", sentence, hint, store.name)
    sentence = f"last collected {done:%F}" if done else "never collected; the store is new"
    return Finding(Level.OK, "runs", sentence, "", store.name)


def _unfinished(store: Store, run: RunRecord) -> Finding:
    """Unfinished run, with the command to finish it."""
    named = name_of(store.kind, store.name, store.uid)
    where = "" if named == store.name else f" --store {named}"
    name = short(run.id)
    # An apply is refused once an undo has begun.
    if run.undoing:
        hint = f"finish it: reclaim undo {name}{where}"
    else:
        # A plan is where its store keeps plans, or where --out named a place.
        plan = name if run.place.endswith(f"/{run.id}") else run.place
        hint = f"finish it: reclaim apply {plan}{where}"
        if run.undoable or can_be_given_up(store, run):
            hint += f"; or undo it: reclaim undo {name}{where}"
    sentence = f"run {name} is unfinished ({run.phase})"
    return Finding(Level.WARNING, "runs", sentence, hint, store.name)


def _orphans(store: Store) -> Iterator[Finding]:
    """Quarantined objects no command handles."""
    for left in find_orphans(store):
        sentence = (
            f"{left.objects} objects ({left.bytes} bytes) are in the quarantine of run {left.run}, "
            f"which is {left.state}: no command restores or purges them"
        )
        folder = store.format.quarantine_path(left.run)
        hint = f"inspect them, and delete them if they are not needed: {folder}"
        yield Finding(Level.WARNING, "quarantine", sentence, hint, store.name)


def _permissions(catalog: Catalog) -> Iterator[Finding]:
    """File permissions of a database: anybody who can read the file can read all names."""
    files = catalog.database_files
    open_to_others = [str(file) for file in files if file.stat().st_mode & 0o077]
    if open_to_others:
        sentence = f"users other than the owner can read or write {abbreviate(open_to_others)}"
        hint = f"if that is not intended: chmod 600 {shlex.join(open_to_others)}"
        yield Finding(Level.WARNING, "permissions", sentence, hint)
    elif files:
        yield Finding(Level.OK, "permissions", "only the owner can read the database")


def _home(catalog: Catalog) -> Finding:
    """Whether a copy of the database would be noticed."""
    try:
        catalog.home.check()
    except ReclaimError as error:
        return failed("home", error)
    if catalog.home.identity() is None:
        hint = "let the account of the catalog execute pg_control_system()"
        sentence = "the database does not report its identity, so a copy may go unnoticed"
        return Finding(Level.SKIPPED, "home", sentence, hint)
    return Finding(Level.OK, "home", "this database is the one that may collect in the storage")


def _storage(storage: Storage, clock: Clock, *, probe: str) -> Iterator[Finding]:
    try:
        storage.put(probe, b"")
        storage_time = storage.head(probe).last_modified
        now = clock.now()
        storage.delete(probe)
    except ReclaimError as error:
        yield failed("storage", error)
        return
    yield Finding(Level.OK, "storage", f"{storage.url} can be written, read and deleted from")
    off = abs(storage_time - now)
    if off > SKEW:
        sentence = (
            f"this machine's clock says {now:%F %T} UTC and the storage's {storage_time:%F %T} UTC"
        )
        yield failed("clock", ClockSkew(sentence, hint="set the clock; no run starts until then"))
    else:
        yield Finding(Level.OK, "clock", f"{off.total_seconds():.0f} s from the storage's")
    yield from _bucket(storage.url)


def _bucket(url: str) -> Iterator[Finding]:
    if not url.startswith("s3://"):
        return
    reasons = environment.kept_by_bucket(url)
    if reasons is None:
        hint = "pip install 'reclaim[s3]', with the right to read the bucket's settings"
        sentence = "cannot tell whether the bucket frees the space of deleted objects"
        yield Finding(Level.SKIPPED, "bucket", sentence, hint)
    elif reasons:
        hint = "let a lifecycle rule of the bucket remove old versions"
        yield Finding(Level.WARNING, "bucket", "; ".join(reasons), hint)
    else:
        yield Finding(Level.OK, "bucket", "neither versioning nor a lock keeps deleted objects")

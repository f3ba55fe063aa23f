"""See each test of the contract fail once: with a store that breaks what it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from reclaim.errors import Corrupt, ReclaimError
from reclaim.history import Edit
from reclaim.ids import new_uid
from reclaim.model import Lease, Ref, RefKind, Snapshot, SnapshotId
from reclaim.run.apply.exclusion import Exclusion
from reclaim.storage import Payload
from reclaim.stores.abilities import Restored
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog.held import HeldRepository
from reclaim.stores.findings import Finding, Level
from reclaim.stores.format import CONTAINERS, WORK
from reclaim.stores.icechunk.backups import Backups
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.held_repo import HeldRepo
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Observation
from reclaim.stores.sidecar import lock as locking
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.sidecar.policy import PolicyFile
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing import FakeClock, StorageWrapper
from reclaim.testing.stores import AbilityContract, RunContract, StoreContract
from reclaim.testing.stores.abilities import KNOWN_RULES
from tests.collect.helpers import world as collect
from tests.collect.plan.test_catalog_store import CatalogSubject
from tests.conftest import Backend
from tests.icechunk.repositories import NEWEST_SPEC
from tests.icechunk.subject import IcechunkSubject
from tests.stores.breaks import (
    CATALOG,
    ICECHUNK_1,
    ICECHUNK_2,
    TERMINUS,
    Break,
    nothing,
    with_other,
    without_some,
)
from tests.stores.shelf import held as shelf_held
from tests.stores.shelf import store as shelf_store
from tests.stores.shelf.format import OURS, SNAPSHOT, ShelfFormat
from tests.stores.shelf.held import HeldShelf, HistoryRead
from tests.stores.shelf.library import DEFAULT, Index, Shelf
from tests.stores.shelf.store import ShelfStore
from tests.stores.shelf.subject import ShelfSubject
from tests.stores.shelf.world import World
from tests.stores.taking_breaks import MORE_TAKING, TAKING_BREAKS
from tests.terminus import world as terminus
from tests.terminus.test_store import TerminusSubject

pytestmark = pytest.mark.repeats(first=6)


class AllContracts(StoreContract, AbilityContract, RunContract):
    __test__ = False


def blind(format: ShelfFormat, storage: Any, address: str) -> Any:
    try:
        return CONTAINERS_OF(format, storage, address)
    except Corrupt:
        return CONTAINERS.empty_table()


CONTAINERS_OF = ShelfFormat.containers
DESCRIBE = ShelfFormat.describe
KEY_RANGES = ShelfFormat.key_ranges


@contextmanager
def lock_of_its_own(sidecar: Sidecar, run_id: str) -> Iterator[Any]:
    folder = f"{sidecar.prefix}lock/{new_uid()}/"
    with locking.hold(sidecar._storage, folder, sidecar._clock, run_id) as lock:
        yield lock


def is_tag(ref: Ref) -> bool:
    return ref.kind is RefKind.TAG


def first_parents(snapshots: Sequence[Snapshot]) -> Sequence[Snapshot]:
    return [replace(one, parents=one.parents[:1]) for one in snapshots]


def counted_as_read(seen: Observation) -> Observation:
    return replace(seen, expected=seen.read)


def lapsed_early(seen: Observation) -> Observation:
    later = seen.read_at + timedelta(hours=1)
    return replace(seen, leases=tuple(lease for lease in seen.leases if lease.valid_at(later)))


def greedy(format: ShelfFormat, addresses: pa.Array) -> pa.StructArray:
    """Takes all that lies beside the shelf's own folders for something that runs left."""
    described = DESCRIBE(format, addresses)
    ours = pc.starts_with(addresses, f"{format.prefix}{OURS}/")
    kind = pc.if_else(ours, WORK, described.field("kind"))
    rest = [described.field(name) for name in ("belongs_to", "guard")]
    return pc.make_struct(kind, *rest, field_names=["kind", "belongs_to", "guard"])


def asks_first(leases: SidecarLeases, snapshot: SnapshotId, needs: Any, **options: Any) -> Lease:
    """Reads the lists before it writes."""
    lease = Lease(new_uid(), snapshot, options["holder"], leases._clock.now(), options["length"])
    leases._check(lease, needs)
    leases._write(lease)
    return lease


def restores_all(held: HeldShelf, run: str, _whole: Any, **options: Any) -> Restored:
    return RESTORE(held, run, list(held._lists.taken_by(run)), **options)


def holds_tips(held: HeldShelf, run: str, *args: Any, **options: Any) -> Restored:
    restored = RESTORE(held, run, *args, **options)
    entries = held._shelf.read().snapshots.values()
    parents = {parent for entry in entries for parent in entry.parents}
    for lease in held._leases.all():
        if lease.snapshot in parents:
            held._leases.release(lease.id)
    return restored


def forgets_parents(index: Index, listed: Any) -> bool:
    changed = WITHDRAW(index, listed)
    index.others.pop(shelf_held.PARENTS, None)
    return changed


class CarelessStorage(StorageWrapper):
    """Storage that writes over what is there already."""

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        self.inner.put(address, data, create=False)


def writes_over(shelf: Shelf, index: Index) -> None:
    storage, shelf._storage = shelf._storage, CarelessStorage(shelf._storage)
    try:
        WRITE(shelf, index)
    finally:
        shelf._storage = storage


def deletes_branches(held: HeldShelf, *args: Any) -> None:
    EXPIRE_BY_LIBRARY(held, *args)
    for branch in held._shelf.read().branches:
        if branch != DEFAULT:
            held._shelf.delete_branch(branch)


def promised_snapshots(promised: Any) -> Any:
    return {run: {SNAPSHOT: kinds[SNAPSHOT]} for run, kinds in promised.items()}


def leaves_nothing_out(store: Any, engine: Any, candidates: Any, *_: Any, **__: Any) -> Any:
    return Exclusion((), candidates, ())


REFS_IN, SNAPSHOTS_IN = shelf_held.refs_in, shelf_held.snapshots_in
WITHDRAW = shelf_held._withdraw
OBSERVE, TAKEN, PROMISED = ShelfStore.observe, ShelfStore.taken, ShelfStore.promised
RESTORE, EXPIRE_BY_LIBRARY = HeldShelf.restore, HeldShelf.expire_by_library
EXPIRE, WRITE = Shelf.expire, Shelf.write
HOLD = SidecarLeases.hold_returned
EMPTY = Edit({}, (), (), (), (), {})

BREAKS = TAKING_BREAKS | {
    "test_a_survey_tells_what_snapshots_list": Break(
        IcechunkFormat, "_owned", without_some(IcechunkFormat._owned), ICECHUNK_1
    ),
    "test_a_library_that_is_missing_is_told": Break(
        IcechunkStore, "check_library", nothing, ICECHUNK_1
    ),
    "test_what_is_needed_once_edited_is_not_named": Break(
        IcechunkStore, "needed_once_edited", lambda *_args: (), ICECHUNK_2
    ),
    "test_old_backups_go_on_request": Break(IcechunkStore, "collect_backups", nothing, ICECHUNK_2),
    "test_key_ranges_cover_every_object_once": Break(
        ShelfFormat, "key_ranges", lambda *args: list(KEY_RANGES(*args))[1:]
    ),
    "test_the_format_can_be_sent_elsewhere": Break(
        ShelfFormat, "__reduce__", lambda self: (ShelfFormat, (self.root, "another"))
    ),
    "test_the_handle_is_what_the_lock_gives": Break(ShelfStore, "handle", HeldSidecar),
    "test_describe_knows_what_may_go": Break(
        ShelfFormat, "describe", lambda self, given: DESCRIBE(replace(self, name="shelf"), given)
    ),
    "test_nothing_outside_is_the_stores": Break(ShelfFormat, "prefix", ""),
    "test_containers_and_entries_are_complete": Break(
        ShelfFormat, "containers", without_some(CONTAINERS_OF)
    ),
    "test_observe_tells_the_living_from_the_dead": Break(
        ShelfStore, "observe", with_other(ShelfStore.observe, refs=())
    ),
    "test_every_way_to_be_live_is_seen": Break(
        shelf_store, "refs_in", lambda index: [ref for ref in REFS_IN(index) if not is_tag(ref)]
    ),
    "test_a_read_that_is_short_stops_a_run": Break(
        ShelfStore, "observe", lambda *args: counted_as_read(OBSERVE(*args))
    ),
    "test_observe_holds_what_is_not_in_a_snapshot_yet": Break(
        CatalogStore, "observe", with_other(CatalogStore.observe, held=()), CATALOG
    ),
    "test_a_mark_is_provisional": Break(HeldShelf, "release", nothing),
    "test_a_promoted_mark_is_terminal": Break(HeldShelf, "promote", lambda _held: 1),
    "test_what_a_ref_names_is_not_marked": Break(Index, "tips", lambda _index: set()),
    "test_a_run_that_stops_takes_its_marks_off": Break(HeldShelf, "abandon", nothing),
    "test_who_writes_while_a_run_marks_loses_nothing": Break(Shelf, "write", writes_over),
    "test_marks_that_were_left_are_taken_off": Break(HeldShelf, "begin", nothing),
    "test_the_lock_excludes_others": Break(Sidecar, "lock", lock_of_its_own),
    "test_who_lost_the_lock_changes_nothing": Break(
        HeldSidecar, "_working", lambda held: held.lock.run_id
    ),
    "test_what_reclaim_keeps_is_no_candidate": Break(ShelfFormat, "describe", greedy),
    "test_what_is_missing_stops_a_run": Break(ShelfFormat, "containers", blind),
    "test_runs_are_recorded": Break(HeldShelf, "finish", nothing),
    "test_a_plan_is_vouched_for": Break(ShelfStore, "record_plan", nothing),
    "test_the_holder_of_the_lock_is_known": Break(ShelfStore, "lock_state", nothing),
    "test_a_plan_has_a_place_of_its_own": Break(
        ShelfStore, "place", lambda store, _run: (store.storage.url, store.format.prefix)
    ),
    "test_it_declares_what_it_can_do": Break(ShelfStore, "old_uploads", nothing),
    "test_a_history_is_edited_whole": Break(
        HeldRepository, "edit_history", lambda *_: True, CATALOG
    ),
    "test_an_edit_by_an_old_reading_is_not_made": Break(
        HeldRepository, "edit_history", lambda *_: True, CATALOG
    ),
    "test_an_edit_is_rolled_back": Break(HeldRepository, "roll_back", lambda _held: [], CATALOG),
    "test_the_library_does_what_is_predicted": Break(HeldShelf, "expire_by_library", nothing),
    "test_the_library_is_not_asked_by_an_old_reading": Break(
        HeldShelf,
        "expire_by_library",
        lambda held, asked, _seen: EXPIRE_BY_LIBRARY(held, asked, held.read_history()),
    ),
    "test_a_rule_that_is_expressed_is_kept_to": Break(
        ShelfStore, "expressible_rules", lambda _store: KNOWN_RULES
    ),
    "test_anybody_can_read_the_history": Break(
        ShelfStore, "current_history", lambda _store: HistoryRead((), ())
    ),
    "test_a_policy_is_kept": Break(PolicyFile, "write", nothing),
    "test_what_goes_online_is_counted": Break(
        CatalogStore,
        "online_deletes",
        with_other(CatalogStore.online_deletes, late=True),
        CATALOG,
    ),
    "test_a_lease_is_a_root": Break(
        ShelfStore, "observe", with_other(ShelfStore.observe, leases=())
    ),
    "test_leases_are_taken_renewed_and_given_back": Break(SidecarLeases, "_check", nothing),
    "test_who_leases_late_is_told": Break(SidecarLeases, "take", asks_first),
    "test_a_survey_reads_every_snapshot": Break(
        TerminusFormat, "survey", without_some(TerminusFormat.survey), TERMINUS
    ),
    "test_what_goes_one_after_the_other_is_ordered": Break(
        ShelfFormat, "sequential", property(lambda _format: True)
    ),
    "test_deletes_are_ordered": Break(
        TerminusStore, "in_order", lambda _store, addresses, _reader: addresses, TERMINUS
    ),
    "test_what_promised_snapshots_need_is_live": Break(
        TerminusStore, "keep_whole", lambda _store, seen, *_, **__: seen, TERMINUS
    ),
    "test_what_is_missing_is_allowed_by_name": Break(
        TerminusStore, "allow_missing", nothing, TERMINUS
    ),
    "test_what_dead_runs_left_is_cleaned": Break(ShelfStore, "clean", nothing),
    "test_the_doctor_misses_what_is_lost": Break(
        ShelfStore, "_look", lambda *_: Finding(Level.OK, "objects", "fine")
    ),
    "test_what_is_out_of_time_is_ended": Break(HeldRepository, "close_overdue", nothing, CATALOG),
    "test_what_only_the_storage_knows_is_adopted": Break(HeldRepository, "adopt", nothing, CATALOG),
    "test_uploads_that_were_left_can_be_given_up": Break(
        CatalogStore, "abort_uploads", lambda *_: 1, CATALOG
    ),
    "test_a_run_takes_what_is_dead_and_nothing_else": Break(
        ShelfFormat, "order", ShelfFormat("file:///", "x").order[1:]
    ),
    "test_it_is_safe_to_die_before_each_kind": Break(
        HeldShelf, "_follow_lists", lambda _held: set()
    ),
    "test_what_is_left_out_stays_until_the_next_run": Break(
        "reclaim.run.apply.apply_plan", "leave_out", leaves_nothing_out
    ),
    "test_rules_take_what_they_say": Break(ShelfStore, "predict_edit", lambda *_: EMPTY),
    "test_a_rule_that_cannot_be_expressed_is_refused": Break(
        "reclaim.run.plan.planning", "find_library_edit", nothing
    ),
    "test_quarantine_has_a_way_back": Break(
        HeldShelf, "restore", lambda *_, **__: Restored(1, (), ())
    ),
    "test_another_run_leaves_what_was_promised": Break(
        ShelfStore, "promised", lambda _store, runs: {run: {} for run in runs}
    ),
    "test_two_quarantines_are_apart": Break(
        ShelfFormat, "quarantine_path", lambda format, _run: f"{format.prefix}{OURS}/aside/all/"
    ),
    "test_a_part_can_come_back_before_the_rest": Break(HeldShelf, "restore", restores_all),
    "test_an_undo_that_is_not_complete_goes_on": Break(
        HeldShelf,
        "restore",
        lambda held, run, whole, **_options: RESTORE(held, run, whole, complete=True),
    ),
    "test_purge_ends_a_quarantine": Break(HeldShelf, "forget", lambda *_: 0),
    "test_what_a_run_left_condemned_is_promised_by_the_next": Break(
        HeldRepository, "take_over", lambda *_: 0, CATALOG
    ),
    "test_parents_of_promised_snapshots_stay": Break(
        CatalogStore, "keep_parents", lambda _store, seen, **_options: seen, CATALOG
    ),
    "test_an_edit_that_cannot_be_undone_leaves_time": Break(
        SidecarLeases, "hold_returned", lambda leases, *_: leases._clock.now()
    ),
    "test_what_is_referred_to_again_comes_back": Break(
        TerminusStore, "needed", lambda *_: (), TERMINUS
    ),
}

MORE: dict[str, tuple[str, Break]] = MORE_TAKING | {
    "the default branch alone": (
        "test_every_way_to_be_live_is_seen",
        Break(shelf_store, "refs_in", lambda index: [ref for ref in REFS_IN(index) if ref.default]),
    ),
    "first parents alone": (
        "test_every_way_to_be_live_is_seen",
        Break(shelf_store, "snapshots_in", lambda entries: first_parents(SNAPSHOTS_IN(entries))),
    ),
    "a run that knows no tags": (
        "test_a_run_takes_what_is_dead_and_nothing_else",
        Break(
            shelf_store, "refs_in", lambda index: [ref for ref in REFS_IN(index) if not is_tag(ref)]
        ),
    ),
    "marks at tags": (
        "test_what_a_ref_names_is_not_marked",
        Break(Index, "tips", lambda index: set(index.branches.values())),
    ),
    "a library that deletes other branches": (
        "test_the_library_does_what_is_predicted",
        Break(HeldShelf, "expire_by_library", deletes_branches),
    ),
    "a library that deletes no branches": (
        "test_the_library_does_what_is_predicted",
        Break(Shelf, "expire", lambda *args, **_options: EXPIRE(*args, delete_tags=True)),
    ),
    "a history without other branches": (
        "test_the_library_does_what_is_predicted",
        Break(shelf_held, "refs_in", lambda index: [ref for ref in REFS_IN(index) if ref.default]),
    ),
    "leases that lapse early": (
        "test_a_lease_is_a_root",
        Break(ShelfStore, "observe", lambda *args: lapsed_early(OBSERVE(*args))),
    ),
    "nothing is set aside": (
        "test_quarantine_has_a_way_back",
        Break(HeldShelf, "set_aside", lambda _held, ids: len(ids)),
    ),
    "no containers tell what is whole": (
        "test_a_part_can_come_back_before_the_rest",
        Break(ShelfStore, "taken", lambda *args: {one: {} for one in TAKEN(*args)}),
    ),
    "parents that stay away": (
        "test_a_part_can_come_back_before_the_rest",
        Break(shelf_held, "_withdraw", forgets_parents),
    ),
    "entries that a purge leaves": (
        "test_purge_ends_a_quarantine",
        Break(HeldShelf, "forget", HeldSidecar.forget),
    ),
    "attributes that are not promised": (
        "test_another_run_leaves_what_was_promised",
        Break(ShelfStore, "promised", lambda *args: promised_snapshots(PROMISED(*args))),
    ),
    "one of several is held": (
        "test_an_edit_that_cannot_be_undone_leaves_time",
        Break(SidecarLeases, "hold_returned", lambda self, ids, *args: HOLD(self, ids[:1], *args)),
    ),
    "tips alone are held": (
        "test_an_edit_that_cannot_be_undone_leaves_time",
        Break(HeldShelf, "restore", holds_tips),
    ),
    "held for a part of the window": (
        "test_an_edit_that_cannot_be_undone_leaves_time",
        Break(
            SidecarLeases,
            "hold_returned",
            lambda self, ids, run, _until: HOLD(self, ids, run, None),
        ),
    ),
    "an edit that stays, and nobody says so": (
        "test_an_edit_that_cannot_be_undone_leaves_time",
        Break(ShelfStore, "irreversible", lambda _store: ""),
    ),
    "a log that still needs the backups": (
        "test_old_backups_go_on_request",
        Break(HeldRepo, "free_kinds", nothing, ICECHUNK_2),
    ),
    "backups that the log needs": (
        "test_old_backups_go_on_request",
        Break(Backups, "needed", lambda *_args, **_options: frozenset(), ICECHUNK_2),
    ),
}
"""Other ways to break what a test asks for."""


def test_there_is_a_break_for_each_test() -> None:
    assert BREAKS.keys() == {name for name in dir(AllContracts) if name.startswith("test_")}


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        *(pytest.param(name, broken, id=name) for name, broken in BREAKS.items()),
        *(pytest.param(*entry, id=way) for way, entry in MORE.items()),
    ],
)
def test_a_store_that_breaks_it_is_noticed(
    name: str,
    broken: Break,
    folder: Path,
    clock: FakeClock,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if broken.subject == CATALOG:
        backend: Backend = request.getfixturevalue("embedded")
        subject: Any = CatalogSubject(collect.World.make(backend))
    elif broken.subject == TERMINUS:
        world = terminus.make_world(folder, clock, monkeypatch)
        subject = TerminusSubject(world, archives=True)
    elif broken.subject in (ICECHUNK_1, ICECHUNK_2):
        if int(broken.subject[-1]) > NEWEST_SPEC:
            pytest.skip("the installed library writes spec 1 only")
        subject = IcechunkSubject(folder, int(broken.subject[-1]))
    else:
        subject = ShelfSubject(World.make(folder, clock))
    if isinstance(broken.owner, str):
        monkeypatch.setattr(f"{broken.owner}.{broken.name}", broken.wrong)
    else:
        monkeypatch.setattr(broken.owner, broken.name, broken.wrong, raising=False)
    with pytest.raises((AssertionError, ReclaimError)):
        getattr(AllContracts(), name)(subject)

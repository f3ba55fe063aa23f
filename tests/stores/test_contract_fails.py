"""See each test of the contract fail once: with a store that breaks what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from reclaim.errors import Corrupt, ReclaimError
from reclaim.history import Edit
from reclaim.ids import new_uid
from reclaim.stores.abilities import Quarantines, Restored
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog.held import HeldRepository
from reclaim.stores.findings import Finding, Level
from reclaim.stores.format import CONTAINERS
from reclaim.stores.sidecar import lock as locking
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing import FakeClock
from reclaim.testing.stores import AbilityContract, RunContract, StoreContract
from tests.collect import world as collect
from tests.collect.test_catalog_store import CatalogSubject
from tests.conftest import Backend
from tests.stores.shelf.format import ShelfFormat
from tests.stores.shelf.held import HeldShelf
from tests.stores.shelf.library import Index
from tests.stores.shelf.store import ShelfStore
from tests.stores.shelf.subject import ShelfSubject
from tests.stores.shelf.world import World
from tests.terminus import world as terminus
from tests.terminus.test_store import TerminusSubject

Call = Callable[..., Any]
SHELF, CATALOG, TERMINUS = "shelf", "catalog", "terminus"


class AllContracts(StoreContract, AbilityContract, RunContract):
    __test__ = False


@dataclass(frozen=True)
class Break:
    """What is wrong with a store: an attribute of a class that is another."""

    owner: Any
    name: str
    wrong: Any
    subject: str = SHELF


def nothing(*_: Any, **__: Any) -> None:
    pass


def without_some(method: Call) -> Call:
    """A table without its first row."""
    return lambda *args, **options: method(*args, **options).slice(1)


def with_other(method: Call, **changes: Any) -> Call:
    return lambda *args, **options: replace(method(*args, **options), **changes)


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


EMPTY = Edit({}, (), (), (), (), {})

BREAKS = {
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
    "test_observe_holds_what_is_not_in_a_snapshot_yet": Break(
        CatalogStore, "observe", with_other(CatalogStore.observe, held=()), CATALOG
    ),
    "test_a_mark_is_provisional": Break(HeldShelf, "release", nothing),
    "test_a_promoted_mark_is_terminal": Break(HeldShelf, "promote", lambda _held: 1),
    "test_what_a_ref_names_is_not_marked": Break(Index, "tips", lambda _index: set()),
    "test_marks_that_were_left_are_taken_off": Break(HeldShelf, "begin", nothing),
    "test_the_lock_excludes_others": Break(Sidecar, "lock", lock_of_its_own),
    "test_what_is_missing_stops_a_run": Break(ShelfFormat, "containers", blind),
    "test_runs_are_recorded": Break(HeldShelf, "finish", nothing),
    "test_a_plan_is_vouched_for": Break(ShelfStore, "record_plan", nothing),
    "test_the_holder_of_the_lock_is_known": Break(ShelfStore, "lock_holder", nothing),
    "test_a_plan_has_a_place_of_its_own": Break(
        ShelfStore, "place", lambda store, _run: (store.storage.url, store.format.prefix)
    ),
    "test_it_declares_what_it_can_do": Break(
        ShelfSubject, "abilities", ShelfSubject.abilities - {Quarantines}
    ),
    "test_no_ability_is_there_in_part": Break(ShelfStore, "old_uploads", nothing),
    "test_a_history_is_edited_whole": Break(
        HeldRepository, "edit_history", lambda *_: True, CATALOG
    ),
    "test_an_edit_by_an_old_reading_is_not_made": Break(
        HeldRepository, "edit_history", lambda *_: True, CATALOG
    ),
    "test_an_edit_is_rolled_back": Break(HeldRepository, "roll_back", lambda _held: [], CATALOG),
    "test_the_library_does_what_is_predicted": Break(HeldShelf, "expire_by_library", nothing),
    "test_a_lease_is_a_root": Break(
        ShelfStore, "observe", with_other(ShelfStore.observe, leases=())
    ),
    "test_leases_are_taken_renewed_and_given_back": Break(SidecarLeases, "_check", nothing),
    "test_a_survey_reads_every_snapshot": Break(
        TerminusFormat, "survey", without_some(TerminusFormat.survey), TERMINUS
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
    "test_it_is_safe_to_die_before_each_kind": Break(HeldShelf, "_follow_lists", nothing),
    "test_rules_take_what_they_say": Break(ShelfStore, "predict_edit", lambda *_: EMPTY),
    "test_a_rule_that_cannot_be_expressed_is_refused": Break(
        "reclaim.run.plan", "find_library_edit", nothing
    ),
    "test_quarantine_has_a_way_back": Break(
        HeldShelf, "restore", lambda *_, **__: Restored(1, (), ())
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


def test_there_is_a_break_for_each_test() -> None:
    assert BREAKS.keys() == {name for name in dir(AllContracts) if name.startswith("test_")}


@pytest.mark.parametrize("name", BREAKS)
def test_a_store_that_breaks_it_is_noticed(
    name: str,
    folder: Path,
    clock: FakeClock,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = BREAKS[name]
    if broken.subject == CATALOG:
        backend: Backend = request.getfixturevalue("embedded")
        subject: Any = CatalogSubject(collect.World.make(backend))
    elif broken.subject == TERMINUS:
        world = terminus.make_world(folder, clock, monkeypatch)
        subject = TerminusSubject(world, archives=True)
    else:
        subject = ShelfSubject(World.make(folder, clock))
    if isinstance(broken.owner, str):
        monkeypatch.setattr(f"{broken.owner}.{broken.name}", broken.wrong)
    else:
        monkeypatch.setattr(broken.owner, broken.name, broken.wrong, raising=False)
    with pytest.raises((AssertionError, ReclaimError)):
        getattr(AllContracts(), name)(subject)

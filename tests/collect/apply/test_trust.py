"""A plan is only a proposal: what is believed of it, and what is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import make_url, text

from reclaim.catalog import Catalog
from reclaim.catalog.database.schema import plans
from reclaim.engine.tasks.parts import read_part, write_part
from reclaim.errors import DatabaseUnavailable, InvalidInput, PlanRefused, TooMuch
from reclaim.policy import from_options
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.trust import COMPARED, DIGEST_PREFIX
from reclaim.run.gc import collect
from reclaim.run.plan import plan_file, plan_snapshots
from reclaim.run.plan.plan_document import File, HistoryChange
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.storage.hashed_files import decode, encode
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.collect.helpers.forging import forge, forget, naming, vouch
from tests.collect.helpers.refusing import finishes, refused
from tests.collect.helpers.world import NAME, World, bury, commit_states, stepped, whole
from tests.conftest import Backend
from tests.support.expiring import expire
from tests.support.servers import PostgreSQL


def live(world: World) -> set[str]:
    return world.needed() & world.there()


def applied(world: World, plan: WrittenPlan, **options: Any) -> dict[str, Any]:
    done = apply_plan(
        world.store(), world.engine(), plan.place, opener=lambda _url: world.storage, **options
    )
    return done.summary()


def test_live_objects_in_every_file_of_a_recorded_plan(world: World) -> None:
    bury(world)
    plan = world.plan()
    forged = forge(world, plan, naming(live(world)))
    with refused(world, PlanRefused, 6):
        applied(world, plan)
    # Who gives the digest of the forged one by mistake is refused as well: the store knows better.
    with refused(world, PlanRefused, 6):
        applied(world, plan, digest=forged.digest)
    world.check()


def test_a_plan_without_a_record_vouches_for_nothing(local: World) -> None:
    """Its first apply compared it, and its run has its digest; the second compares it again."""
    bury(local)
    plan = local.plan()
    forge(local, plan, naming(live(local)))
    forget(local)
    for _ in range(2):
        assert applied(local, plan)["compared"] == COMPARED
        local.check()


def test_live_objects_in_every_file_of_a_plan_without_a_record(world: World) -> None:
    past = bury(world)
    plan = world.plan()
    forge(world, plan, naming(live(world)))
    forget(world)
    before = world.there()
    done = applied(world, plan)
    assert (done["objects"], done["compared"]) == (0, COMPARED)
    assert world.there() == before
    world.check()
    assert whole(world.other(), "main") == past.files[past.keep]


def test_a_forged_plan_under_another_name(local: World) -> None:
    """A plan that pretends to be one that the store never saw."""
    bury(local)
    plan = local.plan()
    forge(local, plan, naming(live(local)), run="0" * 32)
    before = local.there()
    assert applied(local, plan)["objects"] == 0
    assert local.there() == before


@pytest.mark.parametrize("run", ["../../../../x", "a/b", "", "x" * 32])
def test_the_name_of_a_run_is_no_path(local: World, run: str) -> None:
    bury(local)
    plan = local.plan()
    forge(local, plan, lambda rows: rows, run=run)
    forget(local)
    with refused(local, PlanRefused, 6):
        applied(local, plan)


def test_a_plan_with_the_name_of_another_kind_of_run(local: World) -> None:
    """Applied, it would write its own end over the record of the expiration."""
    bury(local)
    main = local.repo.branch("main")
    for number in range(2):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
    expired = expire(local.repo, from_options(keep_last=1))
    assert expired is not None
    plan = local.plan(allowed_fraction=1.0)
    forge(local, plan, lambda rows: rows, run=expired.id)
    forget(local)
    with refused(local, PlanRefused, 6):
        applied(local, plan)
    assert [run.phase for run in local.repo.runs()] == ["done"]


def test_a_plan_without_a_record_takes_what_a_new_one_takes_too(world: World) -> None:
    bury(world)
    plan = world.plan()
    forget(world)
    before = world.there()
    repo = world.other()
    repo.create_branch("back", repo.branch("main").commit("same", allow_empty=True).id)
    done = applied(world, plan)
    world.check_swept(plan, before)
    assert done["objects"] > 0
    assert world.repo.runs()[0].compared


def test_a_recorded_plan_is_not_compared(local: World) -> None:
    bury(local)
    done = applied(local, local.plan())
    assert "compared" not in done
    assert not local.repo.runs()[0].compared


def test_what_comes_back_is_found_without_a_record_too(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    forget(local)
    local.other().create_tag("v1", past.first)
    before = local.there()
    applied(local, plan)
    local.check_swept(plan, before)
    assert whole(local.other(), "v1") == past.files[past.first]


def test_times_and_places_of_a_plan_without_a_record_are_not_believed(local: World) -> None:
    """Young objects, and objects in an open partition, that a plan says are old and nowhere."""
    bury(local)
    plan = local.plan()
    writing = local.opened().repository(NAME)
    writing.branch("main").put("young", b"young")
    writing.branch("main").reset()
    closed = local.opened()
    closed.repository(NAME).branch("main").put("closed", b"young as well")
    closed.repository(NAME).branch("main").reset()
    closed.close()
    young = local.there() - set(local.candidates(plan)) - local.needed()
    assert len(young) == 2
    local.clock.advance(minutes=10)
    long_ago = local.clock.now() - timedelta(days=400)

    def lie(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        told = {"last_modified": long_ago, "guard": "", "belongs_to": "", "kind": "data"}
        return [rows[0] | told | {"address": address} for address in sorted(young)]

    forge(local, plan, lie, cutoff=plan.document.started_at)
    forget(local)
    assert applied(local, plan)["objects"] == 0
    assert young <= local.there()


def test_a_margin_is_believed_if_it_is_longer(local: World) -> None:
    bury(local)
    plan = local.plan()
    forge(local, plan, lambda rows: rows, cutoff=local.clock.now() - timedelta(days=365))
    forget(local)
    assert applied(local, plan)["objects"] == 0


def test_a_history_is_not_changed_by_a_plan_without_a_record(local: World) -> None:
    bury(local)
    catalog = local.opened()
    for number in range(3):
        catalog.repository(NAME).branch("main").put("d", f"{number}".encode())
        catalog.repository(NAME).branch("main").commit("more")
    catalog.close()
    local.age()
    plan = local.plan(from_options(keep_last=1), allowed_fraction=1.0)
    forget(local)
    states = commit_states(local.repo)
    with refused(local, PlanRefused, 6):
        applied(local, plan)
    assert commit_states(local.repo) == states
    digest = plan.document.digest
    assert applied(local, plan, digest=digest[:DIGEST_PREFIX].upper())["objects"] > 0
    local.check()


def test_a_tag_is_not_deleted_by_a_forged_plan(local: World) -> None:
    past = bury(local)
    repo = local.other()
    repo.create_tag("v1", past.keep)
    plan = local.plan()
    rows = read_part(local.storage, plan.document.snapshots.part).to_pylist()
    for row in rows:
        for ref in row["refs"] or ():
            ref["deleted"] = ref["name"] == "v1"
    table = pa.Table.from_pylist(rows, schema=plan_snapshots.SNAPSHOTS)
    part = write_part(local.storage, plan.document.snapshots.address, table)
    forge(local, plan, lambda rows: rows, snapshots=File.of(part), deleted_refs=["v1"])
    forget(local)
    with refused(local, PlanRefused, 6):
        applied(local, plan)
    assert [ref.name for ref in repo.tags()] == ["v1"]


def test_too_much_is_not_believed_either(local: World) -> None:
    catalog = local.opened()
    main = catalog.repository(NAME).branch("main")
    for number in range(30):
        main.put(f"{number}", b"x")
    main.reset()
    catalog.close()
    local.age()
    plan = local.plan(allowed_fraction=1.0)
    forget(local)
    with refused(local, TooMuch, 6):
        applied(local, plan)
    assert applied(local, plan, digest=plan.document.digest)["objects"] == 30


@pytest.mark.parametrize("kept", [True, False], ids=["recorded", "not recorded"])
def test_another_digest_is_refused(local: World, kept: bool) -> None:
    bury(local)
    plan = local.plan()
    if not kept:
        forget(local)
    with refused(local, PlanRefused, 6):
        applied(local, plan, digest="0" * 64)
    for wrong in ("", "abc", plan.document.digest[: DIGEST_PREFIX - 1], "g" * 64, "0" * 65):
        with refused(local, InvalidInput, 2):
            applied(local, plan, digest=wrong)
    assert "compared" not in applied(local, plan, digest=plan.document.digest)


def test_the_plan_that_was_seen_is_the_one_that_is_applied(local: World) -> None:
    bury(local)
    plan = local.plan()
    seen = plan_file.read(local.storage, plan.place)
    before = local.there()
    forge(local, plan, naming(live(local)))
    # Its files are not those that were seen.
    with refused(local, PlanRefused, 6):
        applied(local, plan, planned=seen)
    assert local.there() == before


@pytest.mark.parametrize(
    "lie",
    [
        {"candidates": 1},
        {"candidate_bytes": 1},
        {"going": []},
        {"dead": 0},
        {"deleted_refs": ["main"]},
        {"history": HistoryChange(reparented=1, released=0, held=0)},
    ],
    ids=lambda lie: f"less of {next(iter(lie))}",
)
def test_a_summary_that_says_less_than_the_files(local: World, lie: dict[str, Any]) -> None:
    """Even where the store vouches for it: a person was shown the summary."""
    bury(local)
    plan = local.plan()
    vouch(local, forge(local, plan, lambda rows: rows, **lie))
    with refused(local, PlanRefused, 6):
        applied(local, plan)


def test_a_file_with_more_rows_than_the_plan_says(local: World) -> None:
    bury(local)
    plan = local.plan()
    files = [file.model_copy(update={"rows": file.rows + 1}) for file in plan.document.files]
    changed = plan.document.model_copy(update={"files": files})
    vouch(local, plan_file.write(local.storage, plan.place, changed))
    with refused(local, PlanRefused, 6):
        applied(local, plan)


class Reading(CatalogStore):
    """A store that may only be read."""

    def record_plan(self, run_id: str, digest: str) -> None:
        raise DatabaseUnavailable("the database cannot be written")


def test_a_plan_where_only_reading_is_allowed(local: World) -> None:
    bury(local)
    plan = local.plan(store=Reading(local.opened().workspace(NAME)))
    assert plan.not_recorded == "the database cannot be written"
    assert raw.rows(local.repo, plans) == []
    before = local.there()
    assert applied(local, plan)["compared"]
    local.check_swept(plan, before)


def test_a_plan_on_a_database_that_may_only_be_read(
    postgres: PostgreSQL, tmp_path: Path, clock: FakeClock
) -> None:
    location = postgres.new_database()
    backend = Backend("server", location, (tmp_path / "objects").as_uri(), clock, postgres=postgres)
    world = World.make(backend)
    bury(world)
    role = f"reader_{world.repo.uid}"
    with world.repo._workspace.database.write() as connection:
        connection.execute(text(f"CREATE ROLE {role} LOGIN"))
        connection.execute(text(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"))
    url = make_url(location).set(username=role, password=None)
    reading = Catalog.open(url.render_as_string(), clock=clock, wrap_storage=backend.wrap)
    with reading:
        plan = world.plan(store=CatalogStore(reading.workspace(NAME)))
    assert plan.not_recorded is not None
    assert "cannot be written" in plan.not_recorded
    assert plan.document.candidates
    backend.close()


def test_gc_goes_by_what_it_planned(local: World) -> None:
    """Whatever somebody writes in the place of the plan meanwhile."""
    bury(local)
    store = Reading(local.opened().workspace(NAME))
    before = local.there()

    def swap(_run: str, _digest: str) -> None:
        [address] = [
            stored.address
            for stored in local.storage.list(f"repos/{local.repo.uid}/_reclaim/runs")
            if stored.address.endswith("/plan.json")
        ]
        local.storage.put(address, b"{}")

    store.record_plan = swap  # type: ignore[method-assign,assignment]
    options = PlanOptions(margins=Margins())
    done = collect(store, local.engine(), options, opener=lambda _url: local.storage)
    assert done.applied is not None
    assert not done.applied.compared
    assert before - local.there()
    local.check()


def test_old_digests_are_forgotten(world: World) -> None:
    bury(world)
    world.plan()
    [row] = raw.rows(world.repo, plans)
    world.clock.advance(days=20)
    world.plan()
    assert len(raw.rows(world.repo, plans)) == 2
    world.clock.advance(days=20)
    world.plan()
    assert row.run_id not in {one.run_id for one in raw.rows(world.repo, plans)}


def test_held_addresses_that_somebody_changes(local: World) -> None:
    """What is staged is read from a file in the plan's folder, by the hash in its name."""
    bury(local)
    plan = local.plan()
    local.other().branch("main").put("staged", b"staged")

    def change(step: str) -> None:
        if step == "after observe":
            for stored in list(local.storage.list(f"{plan.place.prefix}apply")):
                if "/held/" in stored.address:
                    table = decode(local.storage.get(stored.address), stored.address)
                    other = pa.table({"address": ["elsewhere"] * table.num_rows})
                    local.storage.put(stored.address, encode(other))

    with refused(local, PlanRefused, 6):
        local.apply(plan, store=stepped(local.store(), change))
    finishes(local, plan)


def test_one_digest_for_one_plan(local: World) -> None:
    bury(local)
    plan = local.plan()
    assert plan.document == plan_file.read(local.storage, plan.place)
    assert local.store().recorded_plan(plan.document.run) == plan.document.digest
    assert local.store().recorded_plan("0" * 32) is None

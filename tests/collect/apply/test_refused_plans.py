"""Whose plan it is, and whether it is as it was written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from reclaim.engine.tasks.parts import Part, read_part, write_part
from reclaim.errors import NotFound, OwnedAddress, Partial, PlanRefused, TooMuch
from reclaim.run.plan import plan_file
from reclaim.run.plan.plan_document import File, PlanDocument
from reclaim.storage.hashed_files import encode
from reclaim.stores.catalog import CatalogStore
from tests.collect.helpers.forging import vouch
from tests.collect.helpers.refusing import finishes, refused
from tests.collect.helpers.world import NAME, World, addresses_of, bury, whole


def test_a_plan_for_another_repository(world: World) -> None:
    bury(world)
    plan = world.plan()
    catalog = world.opened()
    catalog.create_repository("another")
    with refused(world, PlanRefused, 6):
        world.apply(plan, store=CatalogStore(catalog.workspace("another")))


def test_a_plan_that_is_not_there(local: World) -> None:
    bury(local)
    plan = local.plan()
    local.storage.delete(plan.place.at("plan.json"))
    with refused(local, NotFound, 3):
        local.apply(plan)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"allowed_fraction": 0.9', b'"allowed_fraction": 1.0'),
        (b'"rows": ', b'"rows": 1'),
        (b"{", b""),
    ],
)
def test_a_plan_edited_by_hand(local: World, old: bytes, new: bytes) -> None:
    bury(local)
    plan = local.plan()
    address = plan.place.at("plan.json")
    written = local.storage.get(address)
    assert old in written
    local.storage.put(address, written.replace(old, new, 1))
    with refused(local, PlanRefused, 6):
        local.apply(plan)


def test_a_file_of_a_plan_edited_by_hand(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    live = max(addresses_of(local.other(), past.keep))
    for file in plan.document.files:
        edit_rows(local, file.part, live)
    with refused(local, PlanRefused, 6):
        local.apply(plan)
    local.check()


def test_the_snapshots_of_a_plan_edited_by_hand(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    part = plan.document.snapshots.part
    rows = read_part(local.storage, part).to_pylist()
    for row in rows:
        row["verdict"] = "unreachable" if row["verdict"] == "live" else "live"
    schema = read_part(local.storage, part).schema
    local.storage.put(part.address, encode(pa.Table.from_pylist(rows, schema=schema)))
    with refused(local, PlanRefused, 6):
        local.apply(plan)
    assert whole(local.other(), "main") == past.files[past.keep]


def edit_rows(world: World, part: Part, address: str) -> Part:
    """Make the first row of a file name another address."""
    table = read_part(world.storage, part)
    rows = table.to_pylist()
    rows[0]["address"] = address
    return write_part(world.storage, part.address, pa.Table.from_pylist(rows, schema=table.schema))


@pytest.mark.parametrize(
    "outside",
    ["_reclaim_root.json", "repos/another/branches/main/p/x", "{own}../x", "{own}", "{own}a//b"],
)
def test_an_address_outside_the_store(local: World, outside: str) -> None:
    """A plan that was forged with all its hashes, in the database too; the deleter refuses."""
    bury(local)
    plan = local.plan()
    address = outside.format(own=f"repos/{local.repo.uid}/")
    files = [
        File.of(edit_rows(local, file.part, address))
        if read_part(local.storage, file.part).column("kind")[0].as_py() == "data"
        else file
        for file in plan.document.files
    ]
    assert files != plan.document.files
    forged: PlanDocument = plan.document.model_copy(update={"files": files})
    vouch(local, plan_file.write(local.storage, plan.place, forged))
    everything = {stored.address for stored in local.storage.list()}
    with pytest.raises(Partial, match="is outside") as partial:
        local.apply(plan)
    assert partial.value.details["cause"]["kind"] == OwnedAddress.kind
    runs = f"repos/{local.repo.uid}/_reclaim/"
    assert {one for one in everything if not one.startswith(runs)} <= {
        stored.address for stored in local.storage.list()
    }


def test_a_plan_that_takes_too_much(world: World) -> None:
    catalog = world.opened()
    repo = catalog.repository(NAME)
    for number in range(30):
        repo.branch("main").put(f"{number}", b"x")
    repo.branch("main").reset()
    catalog.close()
    world.age()
    with refused(world, TooMuch, 6):
        world.plan()
    finishes(world, world.plan(allowed_fraction=1.0))
    world.quiet()

"""Inventories: of this store or another, with odd keys, and with what cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reclaim.engine.answers import Objects
from reclaim.engine.tasks.inventory import _listed, find_inventory
from reclaim.errors import IncompleteRead, InvalidInput
from reclaim.model import StoredObject
from reclaim.storage.hashed_files import encode
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import NAME, World, bury

FILE = "inventory.parquet"


def listed(world: World) -> list[StoredObject]:
    return list(world.storage.list(f"repos/{world.repo.uid}"))


def inventory(world: World, found: Sequence[StoredObject], **columns: Any) -> Objects:
    """An inventory of some objects, with other columns where they are given."""
    taken: dict[str, Any] = {
        "key": pa.array([stored.address for stored in found], pa.string()),
        "size": pa.array([stored.size for stored in found], pa.int64()),
        "last_modified": pa.array(
            [stored.last_modified for stored in found], pa.timestamp("us", tz="UTC")
        ),
    }
    world.storage.put(FILE, encode(pa.table(taken | columns)))
    return find_inventory(world.storage, FILE, world.store().format)


def test_it_stands_for_a_listing(local: World) -> None:
    bury(local)
    expected = local.candidates(local.plan())
    assert local.candidates(local.plan(inventory=inventory(local, listed(local)))) == expected


def other_bucket(world: World) -> list[StoredObject]:
    return [
        replace(stored, address=f"repos/other/{stored.address.split('/', 2)[2]}")
        for stored in listed(world)
    ]


def only_garbage(world: World) -> list[StoredObject]:
    return [stored for stored in listed(world) if stored.address not in world.needed()]


@pytest.mark.parametrize(
    "choose", [other_bucket, lambda _world: [], only_garbage], ids=["other", "empty", "garbage"]
)
def test_one_of_something_else(local: World, choose: Any) -> None:
    bury(local)
    given = inventory(local, choose(local))
    with refused(local, IncompleteRead, 6):
        local.plan(inventory=given, allowed_fraction=1.0)


def test_an_empty_one_of_a_store_in_which_nothing_is_live(local: World) -> None:
    catalog = local.opened()
    catalog.repository(NAME).branch("main").put("a", b"x")
    catalog.repository(NAME).branch("main").reset()
    catalog.close()
    local.age()
    given = inventory(local, [])
    with refused(local, IncompleteRead, 6):
        local.plan(inventory=given, allowed_fraction=1.0)


def test_one_that_is_older_than_the_store(local: World) -> None:
    """Nothing of the store can be in it, so nothing is missed."""
    bury(local)
    early = replace(inventory(local, []), before=local.clock.now() - timedelta(days=900))
    assert local.plan(inventory=early).document.candidates == 0


@pytest.mark.parametrize(
    "name", ["..", "a/../b", "a//b", "", "folder/", "a\0b", "a\nb", ".", "/x", "a/./b"]
)
def test_keys_that_a_sweep_would_refuse(local: World, name: str) -> None:
    bury(local)
    found = listed(local)
    long_ago = local.clock.now() - timedelta(days=90)
    dead = sorted(local.candidates(local.plan()))
    partition = next(address for address in dead if "/branches/" in address).rpartition("/")[0]
    odd = StoredObject(f"{partition}/{name}", 0, long_ago)
    plan = local.plan(inventory=inventory(local, [*found, odd]))
    assert odd.address not in local.candidates(plan)
    assert sorted(local.candidates(plan)) == dead
    local.apply(plan)
    local.check()


def times(values: list[Any], type: pa.DataType | None = None) -> dict[str, pa.Array]:
    return {"last_modified": pa.array(values, type)}


UNREADABLE: dict[str, dict[str, Any]] = {
    "no time": times(["yesterday"]),
    "no zone": times(["2026-01-31T12:00:00"]),
    "a date": times([date(2026, 1, 31)]),
    "a text of a date": times(["2026-01-31"]),
    "a number": times([1_700_000_000]),
    "no time at all": times([None], pa.timestamp("us")),
    "nothing at all": times([None]),
    "a time beyond time": times([2**62], pa.timestamp("ms")),
    "size in words": {"size": pa.array(["big"])},
    "no size": {"size": pa.array([None], pa.int64())},
    "less than nothing": {"size": pa.array([-1])},
    "half a byte": {"size": pa.array([0.5])},
    "no key": {"key": pa.array([None], pa.string())},
    "a key that is no text": {"key": pa.array([b"\xff\xfe"], pa.binary())},
}


@pytest.mark.parametrize("columns", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read(local: World, columns: dict[str, Any]) -> None:
    bury(local)
    given = inventory(local, listed(local)[:1], **columns)
    with refused(local, InvalidInput, 2):
        local.plan(inventory=given)
    with pytest.raises(InvalidInput, match=FILE):
        local.plan(inventory=given)


@pytest.mark.parametrize(
    "type", [pa.timestamp("ns"), pa.timestamp("ms", tz="UTC"), pa.string(), pa.large_string()]
)
def test_times_of_many_kinds(local: World, type: pa.DataType) -> None:
    bury(local)
    expected = local.candidates(local.plan())
    found = listed(local)
    if pa.types.is_timestamp(type):
        values: list[Any] = [stored.last_modified.astimezone(UTC) for stored in found]
        if type.tz is None:
            values = [value.replace(tzinfo=None) for value in values]
    else:
        values = [f"{stored.last_modified:%Y-%m-%dT%H:%M:%S}Z" for stored in found]
    given = inventory(local, found, last_modified=pa.array(values, type))
    assert local.candidates(local.plan(inventory=given)) == expected


def test_a_file_that_is_cut_off(local: World) -> None:
    bury(local)
    given = inventory(local, listed(local))
    data = local.storage.get(FILE)
    local.storage.put(FILE, data[:4] + b"\0" * 200 + data[204:])
    with refused(local, InvalidInput, 2):
        local.plan(inventory=given)
    for broken in (data[:-20], b"PAR1" + b"x" * 40 + b"\x20\0\0\0PAR1", b""):
        local.storage.put(FILE, broken)
        with pytest.raises(InvalidInput, match=FILE):
            find_inventory(local.storage, FILE, local.store().format)


@pytest.mark.parametrize("in_order", [True, False], ids=["sorted", "in any order"])
def test_a_key_that_is_listed_twice_refuses_it(local: World, in_order: bool) -> None:
    """As in an inventory of all versions: everything would count twice."""
    bury(local)
    found = sorted(listed(local), key=lambda stored: stored.address)
    local.clock.advance(days=3)
    given = inventory(local, [found[0], *found] if in_order else [*found, found[0]])
    local.clock.advance(days=2)
    with refused(local, InvalidInput, 2):
        local.plan(inventory=given)


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def test_two_columns_of_one_name(local: World) -> None:
    bury(local)
    inventory(local, listed(local))
    table = pq.read_table(pa.BufferReader(local.storage.get(FILE)))
    local.storage.put(FILE, encoded(table.append_column("key", table.column("key"))))
    with pytest.raises(InvalidInput, match="more than one column key"):
        find_inventory(local.storage, FILE, local.store().format)


def test_a_null_among_the_values_of_a_dictionary_is_no_key(local: World) -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1], pa.int32()), ["a", "b", None])
    times = pa.array([local.clock.now()] * 4, pa.timestamp("us", tz="UTC"))
    table = pa.table({"key": keys, "size": [1] * 4, "last_modified": times})
    objects = Objects(local.storage.url, (), cut="", columns=("key", "size", "last_modified"))
    with pytest.raises(InvalidInput, match="a row has no key"):
        _listed(table, FILE, objects, local.store().format)


def test_keys_need_no_order(local: World) -> None:
    bury(local)
    expected = local.candidates(local.plan())
    found = sorted(listed(local), key=lambda stored: stored.address, reverse=True)
    assert local.candidates(local.plan(inventory=inventory(local, found))) == expected

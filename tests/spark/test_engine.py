"""Spark finds what the local engine finds, however it compares addresses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reclaim.catalog import Catalog, Repository
from reclaim.engine.answers import Objects
from reclaim.engine.base import Engine
from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.inventory import find_inventory
from reclaim.engine.tasks.keys import Key, among, keys_of
from reclaim.engine.tasks.parts import Place, open_storage, read_part
from reclaim.errors import Corrupt, IncompleteRead, InvalidInput, PlanRefused
from reclaim.policy import from_options
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.storage import Storage
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins
from reclaim.testing import ClockedStorage, FakeClock
from tests.spark.paired import PairedEngine

Row = tuple[Any, ...]


class Bench:
    """A repository with a random past, and both engines."""

    def __init__(self, folder: Path, clock: FakeClock, seed: int) -> None:
        self.clock = clock
        self.storage: Storage

        def wrap(storage: Storage) -> Storage:
            self.storage = ClockedStorage(storage, clock)
            return self.storage

        self.catalog = Catalog.init(folder / "catalog", clock=clock, wrap_storage=wrap)
        self.repo = self.catalog.create_repository("sales")
        self.folder = folder
        _live(self.repo, clock, random.Random(seed))

    @property
    def store(self) -> CatalogStore:
        return CatalogStore(self.catalog.workspace("sales"))

    def open(self, url: str) -> Storage:
        return self.storage if url == self.storage.url else open_storage(url)

    def plan(self, engine: Engine, name: str, **options: Any) -> WrittenPlan:
        place = self.folder / name
        place.mkdir()
        chosen = PlanOptions(place=Place(place.as_uri(), ""), **OPTIONS | options)
        # The clock of the place is the machine's; only the store's follows the test's.
        return make_plan(self.store, engine, chosen, opener=self.clocked)

    def clocked(self, url: str) -> Storage:
        return ClockedStorage(open_storage(url), self.clock)

    def plain(self) -> LocalEngine:
        return LocalEngine(self.open, clock=self.clock)


OPTIONS: dict[str, Any] = {"policy": from_options(older_than="4d"), "allowed_fraction": 1.0}


def _live(repo: Repository, clock: FakeClock, choice: random.Random) -> None:
    main = repo.branch("main")
    for day in range(8):
        for _ in range(choice.randrange(1, 12)):
            main.put(f"{choice.choice('abc')}/{choice.randrange(20)}", bytes(choice.randrange(9)))
        if choice.random() < 0.5:
            main.put(f"lost/{day}", b"overwritten")
            main.put(f"lost/{day}", b"again")
        main.commit(f"day {day}")
        if choice.random() < 0.4:
            side = repo.create_branch(f"side-{day}")
            side.put(f"side/{day}", b"side")
            side.commit("on the side")
            if choice.random() < 0.5:
                main.merge(side.name)
            if choice.random() < 0.5:
                repo.delete_branch(side.name)
        clock.advance(days=1)
    main.put("reset", b"x")
    main.reset()
    main.put("staged", b"still wanted")
    clock.advance(days=2)


@pytest.fixture
def bench(tmp_path: Path, clock: FakeClock) -> Iterator[Bench]:
    made = Bench(tmp_path, clock, seed=1)
    yield made
    made.catalog.close()


def rows(plan: WrittenPlan) -> list[Row]:
    storage = open_storage(plan.place.url)
    found = [
        tuple(row.values())
        for file in plan.document.files
        for row in read_part(storage, file.part).to_pylist()
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lookup", [10**9, 0], ids=["looked up", "joined"])
def test_spark_finds_what_the_plain_engine_finds(
    spark: SparkSession, tmp_path: Path, clock: FakeClock, seed: int, lookup: int
) -> None:
    bench = Bench(tmp_path, clock, seed)
    expected = bench.plan(bench.plain(), "plain")
    found = bench.plan(SparkEngine(spark, lookup_limit=lookup), "spark")
    assert rows(expected), "the past was too tidy"
    assert rows(found) == rows(expected)
    for field in ("objects", "bytes", "candidates", "expected", "read", "staying"):
        assert getattr(found.document, field) == getattr(expected.document, field), field
    groups = [sorted(map(str, plan.document.going)) for plan in (found, expected)]
    assert groups[0] == groups[1]
    bench.catalog.close()


def test_what_spark_planned_spark_takes_and_nothing_else(spark: SparkSession, bench: Bench) -> None:
    before = {entry.path: bench.repo.at("main").get(entry.path) for entry in entries(bench)}
    engine = SparkEngine(spark)
    plan = bench.plan(engine, "spark")
    # Something comes back to life and something new is born before it is applied.
    dead, url = [address for address, *_ in rows(plan)], plan.place.url
    bench.repo.branch("main").put("new", b"new")
    bench.repo.branch("main").commit("new")
    left_out = {row[0] for row in rows(plan) if str(row[6]).startswith(("b/", "lost/"))}
    globs, paired = ["b/*", "lost/*"], PairedEngine(bench.plain(), engine, bench.clocked(url))
    done = apply_plan(bench.store, paired, plan.place, exclude=globs, opener=bench.clocked)
    assert done.summary()["objects"] == len(dead) - len(left_out)
    assert (done.summary()["excluded"], done.dropped) == (len(left_out), 0)
    there = {stored.address for stored in bench.storage.list("repos")}
    assert there & set(dead) == left_out
    # A new plan does not know their paths; the list of the run that left them out does.
    again = bench.plan(engine, "again", policy=OPTIONS["policy"])
    assert {row[0] for row in rows(again) if row[6] is None} & left_out
    paired = PairedEngine(bench.plain(), engine, bench.clocked(again.place.url))
    repeated = apply_plan(bench.store, paired, again.place, exclude=globs, opener=bench.clocked)
    assert repeated.left_out.objects == len(left_out)
    done = apply_plan(bench.store, engine, plan.place, opener=bench.clocked)
    assert done.summary()["objects"] == len(dead)
    assert done.summary()["dropped"] == 0
    there = {stored.address for stored in bench.storage.list("repos")}
    assert not there & set(dead)
    after = {entry.path: bench.repo.at("main").get(entry.path) for entry in entries(bench)}
    assert after == before | {"new": b"new"}
    assert bench.plan(engine, "second", policy=OPTIONS["policy"]).document.candidates == 0


def entries(bench: Bench) -> list[Any]:
    return list(bench.repo.at("main").entries())


def collides(addresses: pa.ChunkedArray) -> Key:
    """Seven keys for all addresses."""
    return np.asarray(keys_of(addresses) % np.uint64(7), np.uint64)


@pytest.mark.parametrize("lookup", [10**9, 0], ids=["looked up", "joined"])
def test_keys_that_collide_can_only_keep(spark: SparkSession, bench: Bench, lookup: int) -> None:
    expected = bench.plan(bench.plain(), "plain")
    found = bench.plan(SparkEngine(spark, lookup_limit=lookup, keys_of=collides), "spark")
    assert set(rows(found)) < set(rows(expected))


def test_an_inventory_stands_for_a_listing(spark: SparkSession, bench: Bench) -> None:
    expected = bench.plan(bench.plain(), "plain")
    listed = list(bench.storage.list("repos"))
    table = pa.table(
        {
            "key": [stored.address for stored in listed] + ["repos/other/branches/main/p/x"],
            "size": [stored.size for stored in listed] + [1],
            "last_modified": [stored.last_modified for stored in listed] + [bench.clock.now()],
        }
    )
    inventory = replace(write_inventory(bench, table), before=bench.clock.now())
    engines: dict[str, Engine] = {"i-spark": SparkEngine(spark), "i-plain": bench.plain()}
    for name, engine in engines.items():
        found = bench.plan(engine, name, inventory=inventory)
        assert rows(found) == rows(expected)
    early = replace(inventory, before=bench.clock.now() - timedelta(days=30))
    assert bench.plan(bench.plain(), "early", inventory=early).document.candidates == 0


@pytest.mark.parametrize("lookup", [10**9, 0], ids=["looked up", "joined"])
def test_an_inventory_of_another_bucket(spark: SparkSession, bench: Bench, lookup: int) -> None:
    table = pa.table({"key": ["other/x"], "size": [1], "last_modified": [bench.clock.now()]})
    inventory = replace(write_inventory(bench, table), before=bench.clock.now())
    with pytest.raises(IncompleteRead, match=r"has 0 of \d+ live objects"):
        bench.plan(SparkEngine(spark, lookup_limit=lookup), "spark", inventory=inventory)


def test_an_inventory_that_cannot_be_read(spark: SparkSession, bench: Bench) -> None:
    key = f"repos/{bench.repo.uid}/branches/main/p/x"
    table = pa.table({"key": [key], "size": [1], "last_modified": ["yesterday"]})
    with pytest.raises(InvalidInput, match=r"inventory\.parquet cannot be read.*yesterday"):
        bench.plan(SparkEngine(spark), "spark", inventory=write_inventory(bench, table))


def write_inventory(bench: Bench, table: pa.Table) -> Objects:
    pq.write_table(table, bench.folder / "inventory.parquet", row_group_size=5)
    return find_inventory(
        bench.clocked(bench.folder.as_uri()), "inventory.parquet", bench.store.format
    )


def test_an_error_on_an_executor_comes_back_as_itself(spark: SparkSession, bench: Bench) -> None:
    top = bench.repo.commit("main").metarange
    bench.storage.delete(top)
    with pytest.raises(Corrupt, match="is missing") as caught:
        bench.plan(SparkEngine(spark), "spark")
    assert top in caught.value.message
    assert caught.value.hint


def test_a_part_that_was_edited_is_refused_on_the_executor(
    spark: SparkSession, bench: Bench
) -> None:
    engine = SparkEngine(spark)
    plan = bench.plan(engine, "spark")
    part = bench.folder / "spark" / plan.document.files[0].address
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    before = {stored.address for stored in bench.storage.list("repos")}
    with pytest.raises(PlanRefused, match="was changed"):
        apply_plan(bench.store, engine, plan.place, opener=bench.clocked)
    after = {stored.address for stored in bench.storage.list("repos")}
    assert {address for address in before - after if "/_reclaim/epoch/" not in address} == set()


@pytest.mark.parametrize("margin", [0, 400])
def test_the_margin_holds_in_spark_too(spark: SparkSession, bench: Bench, margin: int) -> None:
    margins = Margins(objects=timedelta(days=margin))
    found = bench.plan(SparkEngine(spark), "spark", margins=margins)
    assert rows(found) == rows(bench.plan(bench.plain(), "plain", margins=margins))
    assert bool(rows(found)) is (margin == 0)


def test_keys_differ_where_addresses_do() -> None:
    choice = random.Random(3)
    texts = {
        "".join(choice.choice("abcdef0123456789/") for _ in range(choice.randrange(0, 70)))
        for _ in range(20_000)
    }
    texts |= {"a" * length for length in range(200)} | {"é/ü", "日本"}
    column = pa.chunked_array([sorted(texts)])
    keys = keys_of(column)
    assert len(set(keys.tolist())) == len(texts)
    sliced = pa.chunked_array([column.combine_chunks().slice(100, 50)])
    assert keys_of(sliced).tolist() == keys[100:150].tolist()
    assert keys_of(pa.chunked_array([], pa.string())).tolist() == []


def test_keys_do_not_tell_capital_letters_from_small_ones() -> None:
    texts = ["repos/1/branches/Main/p/x", "repos/1/branches/%4Dain/2f", "Ab", "ABCDEFGH"]
    small = pa.chunked_array([[text.lower() for text in texts]])
    assert keys_of(pa.chunked_array([texts])).tolist() == keys_of(small).tolist()


def test_among() -> None:
    live = np.array([2, 5, 9], np.uint64)
    asked = np.array([9, 1, 2, 10, 5, 0], np.uint64)
    assert among(asked, live).tolist() == [True, False, True, False, True, False]
    assert among(asked, live[:0]).tolist() == [False] * 6

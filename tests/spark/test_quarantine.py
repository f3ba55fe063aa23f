"""Quarantine, undo and purge on Spark give what the local engine gives, on a disk and on S3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.catalog import Catalog, Repository
from reclaim.catalog.content import ranges
from reclaim.catalog.database.schema import CommitState, commits
from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.requests import ExpandRequest, IncompleteRequest, NeededRequest, RecallRequest
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.deleting import FAILED, JOURNAL
from reclaim.engine.tasks.notes import RETURNED
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part, write_part
from reclaim.engine.tasks.promised import Unread, promised_containers
from reclaim.engine.tasks.quarantine import QUARANTINED, QuarantineFolder
from reclaim.engine.tasks.reading import snapshot_containers
from reclaim.policy import from_options
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import DeleteMarkers, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog.format import METARANGE
from reclaim.stores.observation import Margins
from tests.catalog import raw
from tests.support.servers import SeaweedFS

NOW = timedelta(0)
LIVING, ASIDE, COLLECTED = CommitState.LIVE, CommitState.QUARANTINED, CommitState.COLLECTED
OPTIONS = PlanOptions(
    policy=from_options(keep_last=1), margins=Margins(objects=NOW), allowed_fraction=1.0
)


@dataclass
class Real:
    """A repository by the machine's own clock, which executors go by."""

    folder: Path
    catalog: Catalog

    @property
    def repo(self) -> Repository:
        return self.catalog.repository("sales")

    @property
    def store(self) -> CatalogStore:
        return CatalogStore(self.catalog.workspace("sales"))

    def apply(self, engine: Engine, removal: Removal) -> tuple[Applied, set[str]]:
        """Plan and apply; also what the plan listed."""
        plan = make_plan(self.store, engine, OPTIONS)
        storage = open_storage(plan.place.url)
        tables = [read_part(storage, file.part) for file in plan.document.files]
        listed = {address for table in tables for address in table.column("address").to_pylist()}
        return apply_plan(self.store, engine, plan.place, removal=removal), listed

    def there(self) -> set[str]:
        """What is there but for epochs and what runs write for themselves."""
        ours = f"repos/{self.repo.uid}/_reclaim/"
        own = (f"{ours}epoch/", f"{ours}runs/", f"{ours}quarantine/")
        return {one for one in raw.objects(self.repo) if not one.startswith(own)}

    def shown(self) -> dict[str, dict[str, bytes]]:
        """What every commit shows that can be read; the leases for it are given back."""
        ids = [row.id for row in raw.rows(self.repo, commits) if row.state == LIVING]
        with Catalog.open(self.folder) as catalog:
            at = catalog.repository("sales").at
            return {one: {e.path: at(one).get(e.path) for e in at(one).entries()} for one in ids}

    def states(self) -> set[str]:
        return {row.state for row in raw.rows(self.repo, commits)}

    def give_up_leases(self) -> None:
        """Let the next run have what an undo holds for a day."""
        for lease, _ in self.repo.leases():
            self.repo.release_lease(lease.id)


@contextmanager
def made(folder: Path, storage: str | None = None) -> Iterator[Real]:
    """Commits that expire, that nothing reaches, that share what they have, and an upload."""
    with Catalog.init(folder, storage=storage) as catalog:
        repo = catalog.create_repository("sales")
        main = repo.branch("main")
        for number in range(4):
            for path in ("a", f"b/{number}", f"c/{number % 2}"):
                main.put(path, f"{number} {path}".encode())
            main.commit(f"{number}")
        side = repo.create_branch("side")
        side.put("a", b"side")
        side.commit("side")
        repo.delete_branch("side")
        main.put("lost", b"lost")
        main.reset()
    with Catalog.open(folder) as catalog:
        yield Real(folder, catalog)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 2)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    with made(tmp_path / "catalog") as found:
        yield found


def test_each_engine_undoes_what_the_other_has_set_aside(spark: SparkSession, real: Real) -> None:
    engines: list[Engine] = [SparkEngine(spark), LocalEngine()]
    before, there = real.shown(), real.there()
    told = []
    for one, other in (engines, engines[::-1]):
        applied, listed = real.apply(one, MoveToQuarantine())
        assert there - real.there() == listed
        assert real.states() == {LIVING, ASIDE}
        undone = undo_run(real.store, other, applied.run)
        assert undone.left == ()
        assert real.there() == there
        assert real.shown() == before
        done = applied.summary() | undone.summary()
        # Leases have ids and times of their own.
        done["held"] = [held["snapshot"] for held in done["held"]]
        told.append({name: value for name, value in done.items() if name != "until"})
        real.give_up_leases()
    assert told[0] == told[1]
    assert told[0]["objects"] == len(listed) > 5
    assert told[0]["restored"] == told[0]["collected"] > 3


def test_a_purge_on_spark(spark: SparkSession, real: Real) -> None:
    applied, listed = real.apply(LocalEngine(), MoveToQuarantine())
    there = real.there()
    purged = purge(real.store, SparkEngine(spark), older_than=NOW)
    assert purged is not None
    assert purged.runs == [applied.run]
    assert purged.summary()["objects"] == len(listed)
    assert not [one for one in raw.objects(real.repo) if "/quarantine/" in one]
    assert real.there() == there
    assert real.states() == {LIVING, COLLECTED}


@pytest.mark.parametrize("missing", ["nothing", "data", "range", "metarange"])
def test_spark_misses_what_the_plain_engine_misses(
    spark: SparkSession, real: Real, tmp_path: Path, missing: str
) -> None:
    metaranges = {row.id: row.metarange for row in raw.rows(real.repo, commits) if row.metarange}
    newest = metaranges[real.repo.commit("main").id]
    tree = real.repo._workspace.containers.tree(newest)
    gone = {
        "nothing": "",
        "data": next(entry.address for entry in tree.entries() if entry.path == "a"),
        "range": tree.ranges[0].address,
        "metarange": newest,
    }[missing]
    if gone:
        real.repo._workspace.storage.delete(gone)
    tops = sorted(set(metaranges.values()))
    table, store = snapshot_containers(tops, METARANGE), real.store
    ranges = list(store.format.key_ranges(store.storage))
    found = []
    engines: dict[str, Engine] = {"spark": SparkEngine(spark), "plain": LocalEngine()}
    for name, engine in engines.items():
        place = Place(tmp_path.as_uri(), f"{name}/")
        listed = engine.list(store.format, ranges, place)
        asked = IncompleteRequest(store.format, table, listed, place.below("work"))
        found.append(pipelines.incomplete(engine, asked))
    assert found[0] == found[1]
    assert (newest in found[0]) == bool(gone)
    assert len(found[0]) < len(tops)


@pytest.mark.parametrize("lists", [("a",), ("b",), ("a", "b"), ()], ids="+".join)
def test_spark_recalls_what_the_plain_engine_recalls(
    spark: SparkSession, tmp_path: Path, lists: tuple[str, ...]
) -> None:
    """From what was intended (a), from the journal (b), or both; a note alone tells nothing."""
    place = Place(tmp_path.as_uri(), "lists/")
    storage = open_storage(place.url)

    def rows(outcome: str, **identities: str | None) -> Part:
        objects = [
            dict.fromkeys(JOURNAL.names, "")
            | {"address": at, "size": 1, "outcome": outcome}
            | {"identity": identity}
            for at, identity in identities.items()
        ]
        table = pa.Table.from_pylist(objects, schema=JOURNAL)
        return write_part(storage, place.at(f"{outcome}.parquet"), table)

    intended = rows("intended", one=None, two=None)
    journal = rows(QUARANTINED, two="first", three="first")
    notes = rows(RETURNED, three="first second", four="first second")
    asked = RecallRequest(
        [intended] if "a" in lists else [],
        [journal] if "b" in lists else [],
        [notes],
        place,
        None,
        place,
    )
    recalled = []
    engines: dict[str, Engine] = {"spark": SparkEngine(spark), "plain": LocalEngine()}
    for name, engine in engines.items():
        parts = pipelines.recall(engine, replace(asked, place=place.below(name)))
        tables = [read_part(storage, part) for part in parts]
        found = [row for table in tables for row in table.to_pylist()]
        recalled.append({row["address"]: row["identity"] for row in found})
    assert recalled[0] == recalled[1]
    a, b = {"one": None, "two": None}, {"two": "first", "three": "first second"}
    assert recalled[0] == (a if "a" in lists else {}) | (b if "b" in lists else {})


def test_spark_finds_what_the_plain_engine_finds_that_promised_commits_need(
    spark: SparkSession, real: Real, tmp_path: Path
) -> None:
    """Containers at home and in quarantine; those that live commits have are left out."""
    metaranges = {row.id: row.metarange for row in raw.rows(real.repo, commits) if row.metarange}
    newest = metaranges[real.repo.commit("main").id]
    every = {
        address
        for metarange in metaranges.values()
        for address in addresses_in(real.repo, metarange)
    }
    shared = addresses_in(real.repo, newest)
    applied, _ = real.apply(LocalEngine(), MoveToQuarantine())
    store = real.store
    aside = store.format.quarantine_path(applied.run)
    table = promised_containers(sorted(set(metaranges.values())), METARANGE, aside)
    found: list[set[str]] = []
    engines: dict[str, Engine] = {"spark": SparkEngine(spark), "plain": LocalEngine()}
    for name, engine in engines.items():
        place = Place(tmp_path.as_uri(), f"{name}/")
        live = ExpandRequest(
            store.format, snapshot_containers([newest], METARANGE), place.below("live")
        )
        known = pipelines.expand(engine, live).parts
        for parts in ((), known):
            asked = NeededRequest(store.format, table, place.below(f"needed{len(parts)}"), parts)
            storage = open_storage(place.url)
            rows = [read_part(storage, part) for part in pipelines.needed(engine, asked).parts]
            found.append({one for each in rows for one in each.column("address").to_pylist()})
        away = f"{store.format.prefix}_reclaim/meta/away"
        lost = promised_containers([away], METARANGE, aside)
        asked = NeededRequest(store.format, pa.concat_tables([table, lost]), place.below("lost"))
        assert pipelines.needed(engine, asked).unread == Unread(1, [away], {aside})
    assert found[0] == found[2] == every
    assert found[1] == found[3]
    assert every - shared <= found[1] < every


def test_spark_counts_what_is_not_back_as_missing(
    spark: SparkSession, real: Real, tmp_path: Path
) -> None:
    newest = real.repo.commit("main").metarange
    gone = next(one for one in addresses_in(real.repo, newest) if "/branches/" in one)
    store = real.store
    aside = QuarantineFolder(store.format.prefix, store.format.quarantine_path("f" * 32))
    row = {"address": aside.of(gone), "outcome": FAILED, "size": 1, "kind": "data", "reason": ""}
    ranges = list(store.format.key_ranges(store.storage))
    for engine in (SparkEngine(spark), LocalEngine()):
        place = Place(tmp_path.as_uri(), f"{type(engine).__name__}/")
        journal = pa.Table.from_pylist([row], schema=JOURNAL)
        part = write_part(open_storage(place.url), place.at("journal.parquet"), journal)
        listed = engine.list(store.format, ranges, place)
        table, work = snapshot_containers([newest], METARANGE), place.below("work")
        for parts, broken in (((), frozenset()), ((part,), frozenset([newest]))):
            asked = IncompleteRequest(store.format, table, listed, work, parts, aside)
            assert pipelines.incomplete(engine, asked) == broken


def addresses_in(repo: Repository, metarange: str) -> set[str]:
    """A metarange and all that it needs."""
    tree = repo._workspace.containers.tree(metarange)
    entries = {entry.address for entry in tree.entries() if entry.owned}
    return {metarange, *(info.address for info in tree.ranges), *entries}


@pytest.mark.parametrize("removal", [MoveToQuarantine(), DeleteMarkers()], ids=["moved", "marked"])
@pytest.mark.usefixtures("reached")
def test_the_whole_way_on_s3(
    spark: SparkSession, s3: SeaweedFS, tmp_path: Path, removal: Removal
) -> None:
    bucket = s3.new_bucket()
    if isinstance(removal, DeleteMarkers):
        client: Any = boto3.client("s3")
        status = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket=bucket[5:], VersioningConfiguration=status)
    engine = SparkEngine(spark)
    with made(tmp_path / "catalog", f"{bucket}/{uuid4().hex}") as real:
        before, there = real.shown(), real.there()
        applied, listed = real.apply(engine, removal)
        assert there - real.there() == listed
        assert len(listed) > 5
        assert applied.requests == (2 * len(listed) if removal.name == "moved" else 0)
        undone = undo_run(real.store, engine, applied.run)
        assert (undone.left, undone.objects) == ((), len(listed))
        assert real.there() == there
        assert real.shown() == before

        real.give_up_leases()
        again, listed = real.apply(LocalEngine(), removal)
        purged = purge(real.store, engine, older_than=NOW)
        assert purged is not None
        assert purged.runs == [again.run]
        assert purged.summary()["objects"] == len(listed)
        assert real.there() == there - listed
        assert real.states() == {LIVING, COLLECTED}
        assert len(real.shown()[real.repo.commit("main").id]) == 7

"""A sweep deletes neighbours together, and nothing before all that it is to delete was read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine import pipelines
from reclaim.engine.pipelines.sweeping import DELETED_BY_A_TASK
from reclaim.engine.requests import SweepRequest
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.deleting import DELETED, FAILED, GOING, Remove, Taken, Target
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part, write_part
from reclaim.engine.work.lines import files_table
from reclaim.engine.work.sweeping import count_before, read_pieces
from reclaim.errors import Conflict, OwnedAddress, PlanRefused
from reclaim.storage import Storage
from reclaim.storage.pace import InTime
from reclaim.stores.icechunk.format import CHUNK, IcechunkFormat

TASKS = 4
NAME = "repo"


def candidates(addresses: Sequence[str]) -> pa.Table:
    """Rows as a sweep takes them from a plan."""
    rows = [
        {"address": one, "size": 0, "kind": CHUNK, "reason": "unreferenced"} for one in addresses
    ]
    return pa.Table.from_pylist(rows, schema=GOING)


class Swept:
    """A folder of files, and a plan of several parts to delete them all."""

    def __init__(self, folder: Path, parts: Sequence[int]) -> None:
        self.folder = folder / "data" / NAME / "chunks"
        self.folder.mkdir(parents=True)
        plan = folder / "plan"
        plan.mkdir()
        self.place = Place(plan.as_uri(), "")
        self.format = IcechunkFormat((folder / "data").as_uri(), NAME, 2)
        names = [f"{number:05}" for number in range(sum(parts))]
        random.Random(1).shuffle(names)
        self.listed = [f"{NAME}/chunks/{name}" for name in names]
        for name in names:
            (self.folder / name).touch()
        rest, self.parts = list(self.listed), []
        for number, rows in enumerate(parts):
            part, rest = rest[:rows], rest[rows:]
            file = write_part(open_storage(self.place.url), f"{number}", candidates(part))
            self.parts.append(Part(file.address, file.rows, file.sha256, CHUNK))

    def request(self) -> SweepRequest:
        time = timedelta(minutes=5)
        return SweepRequest(self.format, self.parts, CHUNK, (), Remove(), time, self.place)

    def journals(self, parts: Sequence[Part]) -> list[list[str]]:
        storage = open_storage(self.place.url)
        return [read_part(storage, part).column("address").to_pylist() for part in parts]


@pytest.mark.parametrize("parts", [[5_000], [3_000, 1_001], [900] * 6], ids=str)
def test_each_task_deletes_neighbours(
    spark: SparkSession, tmp_path: Path, parts: Sequence[int]
) -> None:
    plan = Swept(tmp_path, parts)
    swept = pipelines.sweep(SparkEngine(spark, tasks=TASKS), plan.request())
    assert swept.finished
    assert swept.outcome.only(DELETED)[0] == sum(parts)
    assert not [*plan.folder.iterdir()]
    journals = plan.journals(swept.parts)
    assert len(journals) == TASKS
    place = {address: number for number, address in enumerate(plan.listed)}
    for journal in journals:
        numbers = [place[address] for address in journal]
        assert len(numbers) in (sum(parts) // TASKS, sum(parts) // TASKS + 1)
        assert max(numbers) - min(numbers) == len(numbers) - 1, "not of one stretch"
        # Of each part in order; in which order the parts come does not matter.
        turns = sum(after != before + 1 for before, after in pairwise(numbers))
        assert turns < len(parts)


@pytest.mark.parametrize("broken", [0, 5])
@pytest.mark.parametrize("missing", [True, False], ids=["missing", "changed"])
def test_nothing_is_deleted_unless_every_part_can_be_read(
    spark: SparkSession, tmp_path: Path, broken: int, missing: bool
) -> None:
    plan = Swept(tmp_path, [DELETED_BY_A_TASK] * 6)
    file = tmp_path / "plan" / plan.parts[broken].address
    if missing:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(PlanRefused):
        pipelines.sweep(SparkEngine(spark, tasks=TASKS), plan.request())
    assert len([*plan.folder.iterdir()]) == 6 * DELETED_BY_A_TASK


def test_pieces_have_one_length(tmp_path: Path) -> None:
    plan = Swept(tmp_path, [10, 1, 6])
    files = iter([files_table(plan.parts)])
    tables = [*read_pieces(plan.format, plan.place.url, count_before(plan.parts), 3, files)]
    pieces = [piece for table in tables for piece in table.column("piece").to_pylist()]
    assert pieces == [0] * 6 + [1] * 6 + [2] * 5
    assert [row for table in tables for row in table.column("address").to_pylist()] == plan.listed


def test_nothing_is_deleted_if_one_is_not_the_stores_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = Swept(tmp_path, [DELETED_BY_A_TASK] * 6)
    foreign = candidates(["elsewhere/chunks/x"])
    part = write_part(open_storage(plan.place.url), "foreign", foreign)
    plan.parts.append(Part(part.address, part.rows, part.sha256, CHUNK))
    with pytest.raises(OwnedAddress):
        pipelines.sweep(SparkEngine(spark, tasks=TASKS), plan.request())
    assert len([*plan.folder.iterdir()]) == 6 * DELETED_BY_A_TASK


@dataclass(frozen=True)
class AllBut(Remove):
    """Deletes all but one."""

    kept: str = ""

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        if any(target.address == self.kept for target in targets):
            raise Conflict("not this one")
        return super().page(storage, targets, in_time)

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        if target.address == self.kept:
            raise Conflict("not this one")
        return super().take_one(storage, target, in_time)


class OneAfterTheOther(IcechunkFormat):
    """A format whose objects go in order."""

    sequential: ClassVar[bool] = True


def test_in_order_nothing_goes_after_one_that_could_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where Spark hands the rows of a file to the task in several tables."""
    plan = Swept(tmp_path, [1_000])
    batch = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = str(spark.conf.get(batch))
    format = OneAfterTheOther(plan.format.root, NAME, 2)
    request = replace(plan.request(), format=format, deleter=AllBut(kept=plan.listed[3]))
    spark.conf.set(batch, "100")
    try:
        swept = pipelines.sweep(SparkEngine(spark, tasks=TASKS), request)
    finally:
        spark.conf.set(batch, before)
    assert not swept.finished
    assert swept.outcome.counts == {DELETED: 3, FAILED: 1}
    left = {f"{NAME}/chunks/{file.name}" for file in plan.folder.iterdir()}
    assert left == {*plan.listed[3:]}

"""How a listing is shared between tasks."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from reclaim.engine.spark.cores import TASKS_PER_CORE
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.parts import Place, read_part
from reclaim.storage import KeyRange, ObjectStorage, spread
from reclaim.stores.catalog import CatalogFormat

HEX = "0123456789abcdef"
KEYS = 600
TASKS = 4


@pytest.mark.parametrize("where", ["disk", "bucket"])
def test_a_flat_folder_is_listed_by_all_tasks(
    where: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if where == "disk":
        url = tmp_path.as_uri()
    else:
        request.getfixturevalue("reached")
        url = f"{request.getfixturevalue('bucket')}/{uuid4().hex}"
    storage = ObjectStorage.open(url)
    keys = {f"flat/{number:02x}{uuid4().hex}" for number in range(256)}
    keys |= {f"flat/{uuid4().hex}" for _ in range(KEYS - len(keys))}
    for key in (*keys, "other/one"):
        storage.put(key, b"")
    ranges = [*spread("flat", HEX, 64), KeyRange("other")]
    place = Place(tmp_path.as_uri(), "listing/")
    objects = SparkEngine(spark, tasks=TASKS).list(CatalogFormat(url, "x"), ranges, place)
    written = ObjectStorage.open(place.url)
    listed = [
        address
        for part in objects.parts
        for address in read_part(written, part).column("address").to_pylist()
    ]
    assert sorted(listed) == sorted((*keys, "other/one"))
    shares = [part.rows for part in objects.parts]
    # A folder on a disk has to be looked through for each of its pieces: one for each core.
    pieces = TASKS // TASKS_PER_CORE if where == "disk" else TASKS
    assert len(shares) == (pieces + 1 if where == "disk" else TASKS)
    assert max(shares) <= 2 * len(listed) / pieces

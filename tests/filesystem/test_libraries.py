"""Libraries that read and write through fsspec."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import dask.dataframe as dd
import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FSSpecHandler, PyFileSystem

from reclaim.catalog import Branch
from tests.conftest import Backend

READ_IN_WORKER = """
import pickle, sys
fs = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(fs.cat("sales/main/a"))
"""


@pytest.fixture
def table() -> pa.Table:
    return pa.table({"id": range(1000), "year": [2025, 2026] * 500})


@pytest.fixture
def options(fs: Any, backend: Backend) -> dict[str, str]:
    """Storage options of a library, for the same catalog."""
    return {"catalog": backend.location}


def test_the_protocol_is_registered(fs: Any, options: dict[str, str]) -> None:
    assert fsspec.filesystem("reclaim", **options) == fs
    with fsspec.open("reclaim://sales/main/a", "wt", **options) as file:
        file.write("text")
    assert fsspec.open("reclaim://sales/main/a", "rt", **options).open().read() == "text"


def test_pandas(fs: Any, main: Branch, options: dict[str, str], table: pa.Table) -> None:
    frame = table.to_pandas()
    frame.to_csv("reclaim://sales/main/t.csv", index=False, storage_options=options)
    frame.to_parquet("reclaim://sales/main/t.parquet", storage_options=options)
    frame.to_csv("reclaim://sales/main/t.csv.gz", index=False, storage_options=options)
    main.commit("tables")
    for name in ("t.csv", "t.csv.gz"):
        read = pd.read_csv(f"reclaim://sales/main~0/{name}", storage_options=options)
        assert read.equals(frame)
    read = pd.read_parquet("reclaim://sales/main~0/t.parquet", storage_options=options)
    assert read.equals(frame)


def test_pyarrow_writes_and_reads_partitions(
    fs: Any, main: Branch, table: pa.Table, calls: Counter[str]
) -> None:
    files = PyFileSystem(FSSpecHandler(fs))
    partitioning = ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive")
    ds.write_dataset(
        table, "sales/main/t", format="parquet", partitioning=partitioning, filesystem=files
    )
    assert [entry.path for entry in main.entries()] == [
        "t/year=2025/part-0.parquet",
        "t/year=2026/part-0.parquet",
    ]
    main.commit("table")
    calls.clear()
    found = ds.dataset(
        "sales/main~0/t", format="parquet", partitioning=partitioning, filesystem=files
    )
    year = found.to_table(filter=ds.field("year") == 2026, use_threads=False)
    assert year.column("id").to_pylist() == list(range(1, 1000, 2))
    assert calls["stream"] == calls["reader"] == 0
    assert 1 <= calls["get_range"] <= 4
    with pq.ParquetWriter("sales/main/one.parquet", table.schema, filesystem=files) as writer:
        writer.write_table(table)
    assert pq.read_table("sales/main/one.parquet", filesystem=files).equals(table)
    files.move("sales/main/one.parquet", "sales/main/two.parquet")
    files.copy_file("sales/main/two.parquet", "sales/main/three.parquet")
    files.delete_file("sales/main/two.parquet")
    files.delete_dir("sales/main/t")
    assert [entry.path for entry in main.entries()] == ["three.parquet"]


def test_duckdb(fs: Any, main: Branch, table: pa.Table) -> None:
    connection = duckdb.connect()
    connection.register_filesystem(fs)
    connection.register("numbers", table)
    connection.execute("COPY numbers TO 'reclaim://sales/main/t.parquet' (FORMAT parquet)")
    connection.execute("COPY numbers TO 'reclaim://sales/main/t.csv' (FORMAT csv)")
    main.commit("tables")
    query = "SELECT count(*), sum(id) FROM '{}' WHERE year = 2026"
    for path in ("main~0/t.parquet", "main/*.parquet", "main~0/t.csv"):
        rows = connection.execute(query.format(f"reclaim://sales/{path}")).fetchall()
        assert rows == [(500, 250_000)]
    connection.close()


def test_polars(fs: Any, main: Branch, table: pa.Table) -> None:
    with fs.open("sales/main/t.parquet", "wb") as file:
        pl.DataFrame(table).write_parquet(file)
    with fs.open("sales/main/t.parquet") as file:
        assert pl.read_parquet(file).to_arrow().equals(table)
    main.commit("table")
    files = PyFileSystem(FSSpecHandler(fs))
    lazy = pl.scan_pyarrow_dataset(ds.dataset("sales/main~0/t.parquet", filesystem=files))
    assert lazy.filter(pl.col("year") == 2026).collect().height == 500


def test_dask(fs: Any, main: Branch, options: dict[str, str], table: pa.Table) -> None:
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)  # type: ignore[no-untyped-call]
    frame.to_parquet("reclaim://sales/main/t", storage_options=options, overwrite=True)
    assert len(fs.glob("sales/main/t/*.parquet")) == 3
    frame.to_csv("reclaim://sales/main/csv/*.csv", storage_options=options)
    main.commit("tables")
    read = dd.read_parquet("reclaim://sales/main~0/t", storage_options=options)
    assert read.id.sum().compute(scheduler="threads") == 499_500
    assert len(dd.read_csv("reclaim://sales/main/csv/*.csv", storage_options=options)) == 1000


def test_another_process_reads_with_a_pickled_filesystem(fs: Any, main: Branch) -> None:
    main.put("a", b"from another process")
    done = subprocess.run(
        [sys.executable, "-c", READ_IN_WORKER],
        input=pickle.dumps(fs),
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == b"from another process"
    assert done.stderr == b""

"""How a listing of one flat folder is shared between tasks: on a disk, and on SeaweedFS."""

from __future__ import annotations

import os
import secrets
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.figure import Figure, Timer, rate
from reclaim.engine.tasks.parts import Place
from reclaim.storage import KeyRange, ObjectStorage, spread
from reclaim.stores.catalog import CatalogFormat
from tests.support.servers import seaweedfs

FOLDER = "chunks"
HEX = "0123456789abcdef"


def list_flat(runs: int = 3, on_disk: int = 1_000_000, in_bucket: int = 100_000) -> Figure:
    """The largest share of a task, against what each would have if all had the same."""
    ratios: list[float] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as name, seaweedfs(Path(name) / "seaweedfs") as server:
        os.environ.update(server.environment)
        from bench.collect import engine

        # Its workers have the environment that they find now.
        spark = engine()
        on = {
            "a disk": (_fill_disk(Path(name) / "store", on_disk), on_disk),
            "SeaweedFS": (_fill_bucket(server.new_bucket(), in_bucket), in_bucket),
        }
        for where, (url, count) in on.items():
            format = CatalogFormat(url, "bench")
            for run in range(runs):
                timer = Timer()
                out = [Place(Path(name).as_uri(), f"{where}-{run}-{tasks}/") for tasks in range(2)]
                with timer("one"):
                    spark.list(format, [KeyRange(FOLDER)], out[0])
                with timer("all"):
                    listed = spark.list(format, list(spread(FOLDER, HEX, 256)), out[1])
                # A task of more rows than fit in one part writes several.
                shares: dict[str, int] = {}
                for part in listed.parts:
                    stem = part.address.rpartition("-")[0]
                    shares[stem] = shares.get(stem, 0) + part.rows
                assert sum(shares.values()) == count, shares
                ratios.append(max(shares.values()) * len(shares) / count)
                notes.append(
                    f"{count} keys on {where}: {len(shares)} tasks with {min(shares.values())} to "
                    f"{max(shares.values())} each; {timer.seconds['all']:.1f} s "
                    f"({rate(count, timer.seconds['all'])}), "
                    f"by one task {timer.seconds['one']:.1f} s"
                )
    target = "no task has more than twice its share"
    return Figure("listing of a flat folder", ratios, target, lambda ratio: ratio <= 2, notes)


def _fill_disk(folder: Path, count: int) -> str:
    """A storage with one flat folder of random names."""
    flat = folder / FOLDER
    flat.mkdir(parents=True)
    for _ in range(count):
        os.close(os.open(flat / secrets.token_hex(10), os.O_CREAT | os.O_WRONLY))
    return folder.as_uri()


def _fill_bucket(url: str, count: int) -> str:
    storage = ObjectStorage.open(url)

    def put(_number: int) -> None:
        storage.put(f"{FOLDER}/{secrets.token_hex(10)}", b"")

    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(put, range(count)):
            pass
    return url


FIGURES = {"list-flat": list_flat}

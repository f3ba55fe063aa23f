"""Repositories with millions of objects, made without uploading them one by one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import insert, update

from reclaim.catalog import Catalog
from reclaim.catalog.content.ranges import (
    ENTRIES,
    TARGET_ROWS,
    RangeInfo,
    encode_metarange,
    encode_range,
)
from reclaim.catalog.content.ranges import digest as digest_of
from reclaim.catalog.content.tree import entries_of
from reclaim.catalog.database.schema import PartitionState, commits, partitions
from reclaim.clock import from_micros

PARTITION = 50_000
BATCH = 500_000
CREATED = 1_760_000_000_000_000
SIZE = 64
LINKS = 30_000
"""Names of one file; file systems allow some ten thousand."""

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Made:
    """A catalog with one repository, ``bench``, whose main branch names most of the objects."""

    catalog: Catalog
    folder: Path
    inventory: Path
    ranges: list[Path]
    objects: int
    live: int
    garbage: list[str]
    """Objects that the commit does not name, if they are really there."""

    @property
    def storage(self) -> Path:
        return self.folder / "catalog" / "objects"


def make(
    folder: Path,
    objects: int,
    *,
    garbage: float,
    files: bool = False,
    partition: int = PARTITION,
    branches: int = 1,
) -> Made:
    """Make it; with ``files`` the objects are really there, otherwise only in the inventory.

    Each partition has the given number of objects, which lie in the folders of so many branches.
    """
    catalog = Catalog.init(folder / "catalog")
    repo = catalog.create_repository("bench")
    storage = folder / "catalog" / "objects"
    inventory = folder / "inventory"
    inventory.mkdir()
    random = np.random.default_rng(7)
    meta = f"repos/{repo.uid}/_reclaim/meta/{_partition(0)}"
    (storage / meta).mkdir(parents=True)
    infos: list[RangeInfo] = []
    rest = ENTRIES.empty_table()
    left: list[str] = []
    number = 0
    for start in range(0, objects, BATCH):
        count = min(BATCH, objects - start)
        keys = np.vstack(list(_keys(repo.uid, start, count, random, partition, branches)))
        live = np.sort(random.permutation(count)[: round(count * (1 - garbage))])
        addresses = _strings(keys)
        if files:
            _write_files(storage, addresses)
            named = np.zeros(count, np.bool_)
            named[live] = True
            left += addresses.filter(pa.array(~named)).to_pylist()
        sizes = pa.array(np.full(count, SIZE, np.int64))
        times = pa.array(CREATED + np.arange(start, start + count)).cast(pa.timestamp("us", "UTC"))
        listed = pa.table({"key": addresses, "size": sizes, "last_modified": times})
        name = inventory / f"part-{start // BATCH:05d}.parquet"
        pq.write_table(listed.sort_by("key"), name, compression="zstd", row_group_size=250_000)
        paths = pa.array([f"table/day={n // 1000:05d}/part-{n:08d}" for n in start + live])
        blank = pa.array([""]).take(pa.array(np.zeros(len(live), np.int64)))
        taken = pa.array(live)
        columns = [paths, addresses.take(taken), sizes.take(taken), times.take(taken)]
        rows = pa.table([*columns, blank, blank, blank], schema=ENTRIES)
        rest = pa.concat_tables([rest, rows]).combine_chunks()
        while len(rest) >= TARGET_ROWS:
            infos.append(_write_range(storage, meta, rest.slice(0, TARGET_ROWS).combine_chunks()))
            rest = rest.slice(TARGET_ROWS)
        number += len(live)
    if len(rest):
        infos.append(_write_range(storage, meta, rest.combine_chunks()))
    digest, data = encode_metarange(infos)
    top = f"{meta}/{digest}-{hashlib.md5(digest.encode()).hexdigest()}"
    (storage / top).write_bytes(data)
    # An inventory without any container that is needed would be taken for another bucket's.
    listed = pa.table(
        {
            "key": [top, *(info.address for info in infos)],
            "size": [
                (storage / name).stat().st_size for name in (top, *(i.address for i in infos))
            ],
            "last_modified": pa.array([CREATED] * (1 + len(infos))).cast(pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(listed, inventory / "containers.parquet")
    with catalog._database.write() as connection:
        connection.execute(
            insert(partitions),
            [
                {
                    "repo_uid": repo.uid,
                    "id": _partition(at),
                    "instance": "bench",
                    "state": PartitionState.CLOSED,
                    "opened_at": 0,
                    "renewed_at": 0,
                    "closed_at": 1,
                }
                for at in range(objects // partition + 2)
            ],
        )
        connection.execute(update(commits).values(metarange=top))
    ranges = [storage / info.address for info in infos]
    return Made(catalog, folder, inventory, ranges, objects, number, left)


def _partition(number: int) -> str:
    instance = hashlib.md5(str(number).encode()).hexdigest()
    return f"{0xFFFFFFFFFFFFF - number * 3_600_000_000:014x}_{instance}"


def _keys(
    uid: str, start: int, count: int, random: np.random.Generator, size: int, branches: int
) -> Iterator[Bytes]:
    for at in range(start, start + count, size):
        whole = min(size, start + count - at)
        for branch in range(branches):
            some = whole * (branch + 1) // branches - whole * branch // branches
            # Names of one length: the keys are rows of a matrix.
            name = "main" if branches == 1 else f"b{branch:03d}"
            folder = f"repos/{uid}/branches/{name}/{_partition(at // size)}/".encode()
            names = _HEX[random.integers(0, 256, (some, 16), dtype=np.uint8)].reshape(some, -1)
            prefix = np.broadcast_to(np.frombuffer(folder, np.uint8), (some, len(folder)))
            yield np.hstack([prefix, names])


def _strings(matrix: Bytes) -> pa.StringArray:
    rows, width = matrix.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), data)


def _write_range(storage: Path, meta: str, rows: pa.Table) -> RangeInfo:
    digest = digest_of(rows)
    address = f"{meta}/{digest}-{hashlib.md5(digest.encode()).hexdigest()}"
    (storage / address).write_bytes(encode_range(rows))
    first, last = (next(entries_of(rows.slice(at, 1))).path for at in (0, len(rows) - 1))
    return RangeInfo(address, digest, first, last, len(rows), len(rows) * SIZE)


def _write_files(storage: Path, addresses: pa.StringArray) -> None:
    """Files at the addresses: names of a few real files, so that millions need no inodes.

    A listing reads every name and asks for the size and time of each, as it does of others.
    """
    names = addresses.to_pylist()
    shares: dict[str, list[str]] = {}
    for address in names:
        folder, _, name = address.rpartition("/")
        shares.setdefault(folder, []).append(name)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda share: _link_names(storage, *share), shares.items()):
            pass


def _link_names(storage: Path, folder: str, names: list[str]) -> None:
    place = storage / folder
    place.mkdir(parents=True, exist_ok=True)
    old = from_micros(CREATED).timestamp()
    handle = os.open(place, os.O_RDONLY)
    try:
        for first in range(0, len(names), LINKS):
            real, *others = names[first : first + LINKS]
            (place / real).write_bytes(b"x" * SIZE)
            os.utime(place / real, (old, old))
            for name in others:
                os.link(real, name, src_dir_fd=handle, dst_dir_fd=handle)
    finally:
        os.close(handle)

"""Icechunk repositories with millions of chunks, of which the library writes all but most chunks.

Each commit changes one chunk of an array, so that the library writes a manifest with all of its
refs. Then every ref gets a chunk of its own: the ids are replaced where they are in the manifest,
and files of one byte are written for them.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import zarr

from reclaim.stores.icechunk.envelope import HEADER_BYTES, FileType, unwrap
from reclaim.stores.icechunk.flatbuffer import FlatBuffer, FlatTable, Positions, Tables
from reclaim.stores.icechunk.object_ids import ID_BYTES, names
from reclaim.stores.icechunk.snapshot_file import decode_snapshot

ARRAY = "a"
SPECS = (1, 2) if int(icechunk.__version__.split(".")[0]) >= 2 else (1,)
"""The versions of the format that the installed library writes."""
_AT_ONCE = 64
_LINKS = 50_000
"""No file has more names than that on the usual file systems."""
_MANIFEST_ARRAYS, _ARRAY_REFS, _REF_CHUNK_ID = 1, 1, 4
_MANIFESTS_1, _STRUCT_BYTES, _STRUCT_SIZE_AT = 6, 32, 16
_MANIFESTS_2, _INFO_SIZE = 7, 1


class LargeRepository:
    """A repository in a folder: commits on ``main``, and others that nothing reaches any more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(
        cls, folder: Path, spec: int, *, chunks: int, live: int, dead: int, linked: bool = False
    ) -> LargeRepository:
        """With so many live and dead commits, each with so many chunks that no other one has.

        With ``linked`` many chunks are one file under several names, which is made sooner.
        """
        made = cls(folder)
        config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
        asked: dict[str, Any] = {"spec_version": spec} if len(SPECS) > 1 else {}
        repository = icechunk.Repository.create(made._storage(), config=config, **asked)
        _write_array(repository, chunks)
        snapshots = [_change(repository, "main", number) for number in range(1, live)]
        repository.create_branch("old", repository.lookup_branch("main"))
        snapshots += [_change(repository, "old", number) for number in range(dead)]
        repository.delete_branch("old")
        for snapshot in snapshots:
            made._replace_chunks(snapshot, linked=linked)
        return made

    def add_live(self, commits: int) -> None:
        """More commits on ``main``, each with as many chunks of its own; they are linked."""
        repository = self.open()
        for number in range(commits):
            self._replace_chunks(_change(repository, "main", number), linked=True)

    def open(self) -> Any:
        return icechunk.Repository.open(self._storage())

    def _storage(self) -> Any:
        return icechunk.local_filesystem_storage(str(self.folder))

    def _replace_chunks(self, snapshot: str, *, linked: bool) -> None:
        """Give every ref of a snapshot's only manifest a chunk of its own."""
        listed = decode_snapshot((self.folder / "snapshots" / snapshot).read_bytes(), snapshot)
        [manifest] = names(listed.manifests.ids).to_pylist()
        file = self.folder / "manifests" / manifest
        data = file.read_bytes()
        payload = bytearray(unwrap(data, FileType.MANIFEST, str(file))[1])
        at = _chunk_ids(bytes(payload))
        ids = np.random.default_rng().integers(0, 256, (len(at), ID_BYTES), np.uint8)
        np.frombuffer(payload, np.uint8)[at[:, None] + np.arange(ID_BYTES)] = ids
        changed = _wrapped(data, payload)
        file.write_bytes(changed)
        self._set_size(snapshot, len(changed))
        write = _link_files if linked else _write_files
        write(f"{self.folder}/chunks/", names(ids).to_pylist())

    def _set_size(self, snapshot: str, size: int) -> None:
        """Let a snapshot list its only manifest with another size."""
        file = self.folder / "snapshots" / snapshot
        data = file.read_bytes()
        payload = bytearray(unwrap(data, FileType.SNAPSHOT, str(file))[1])
        struct.pack_into("<Q", payload, _manifest_size(bytes(payload)), size)
        file.write_bytes(_wrapped(data, payload))


def _write_array(repository: Any, chunks: int) -> None:
    session = repository.writable_session("main")
    group = zarr.open_group(session.store, mode="a")
    group.create_array(
        ARRAY, shape=(chunks,), chunks=(1,), dtype="u1", compressors=None, fill_value=0
    )
    store = session.store._store

    async def write(first: int) -> None:
        for number in range(first, chunks, _AT_ONCE):
            await store.set(f"{ARRAY}/c/{number}", b"\1")

    async def write_all() -> None:
        await asyncio.gather(*map(write, range(_AT_ONCE)))

    asyncio.run(write_all())
    session.commit("all of it")


def _change(repository: Any, branch: str, number: int) -> str:
    session = repository.writable_session(branch)
    array: Any = zarr.open_group(session.store, mode="a")[ARRAY]
    array[0] = number % 200 + 2
    made: str = session.commit(f"change {number}")
    return made


def _wrapped(before: bytes, payload: bytearray) -> bytes:
    """A metadata file with another payload than before."""
    compressed: bytes = pa.Codec("zstd", 1).compress(bytes(payload), asbytes=True)
    return before[: HEADER_BYTES - 1] + b"\1" + compressed


def _chunk_ids(payload: bytes) -> Positions:
    """Where the chunk ids are in a manifest."""
    buffer = FlatBuffer(payload)
    refs = [array.targets(_ARRAY_REFS) for array in buffer.root.tables(_MANIFEST_ARRAYS)]
    return Tables(buffer, np.concatenate(refs))._fields(_REF_CHUNK_ID, ID_BYTES)


def _manifest_size(payload: bytes) -> int:
    """Where the size of the only manifest is in a snapshot, in either spec."""
    root: FlatTable = FlatBuffer(payload).root
    tables = root.targets(_MANIFESTS_2)
    if len(tables):
        return int(Tables(root.buffer, tables)._fields(_INFO_SIZE, 8)[0])
    at = root.target(_MANIFESTS_1)
    assert at
    first, _ = root.buffer.vector(at, _STRUCT_BYTES)
    return first + _STRUCT_SIZE_AT


def _write_files(prefix: str, files: Sequence[str]) -> None:
    for name in files:
        handle = os.open(prefix + name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(handle, b"\1")
        os.close(handle)


def _link_files(prefix: str, files: Sequence[str]) -> None:
    for first in range(0, len(files), _LINKS):
        one, *others = files[first : first + _LINKS]
        _write_files(prefix, [one])
        for other in others:
            os.link(prefix + one, prefix + other)

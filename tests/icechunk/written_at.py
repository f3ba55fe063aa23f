"""Times of snapshots, set in the files: the library takes them from the clock of the machine."""

from __future__ import annotations

import os
import struct
from datetime import datetime

import pyarrow as pa

from reclaim.clock import from_micros, to_micros
from reclaim.stores.icechunk.envelope import HEADER_BYTES, FileType, unwrap
from reclaim.stores.icechunk.repo_document import RepoDocument
from reclaim.stores.icechunk.repo_schema import INFO_FLUSHED_AT, SNAPSHOTS
from tests.icechunk.repositories import WrittenRepository

_FLUSHED_AT = 3
"""The slot of the time in the file of a snapshot."""


def set_written_at(written: WrittenRepository, time: datetime, *, after: datetime) -> None:
    """Give a time to each snapshot that says that it was written after another."""
    for file in sorted((written.folder / "snapshots").glob("*")):
        _set_in_file(written, file.name, time, after)
    repo = written.folder / "repo"
    if not repo.exists():
        return
    document = RepoDocument.read(repo.read_bytes(), "repo")
    infos = document.values[SNAPSHOTS]
    late = [info for info in infos if from_micros(info[INFO_FLUSHED_AT]) > after]
    for info in late:
        info[INFO_FLUSHED_AT] = to_micros(time)
    if late:
        repo.write_bytes(document.encode())


def _set_in_file(written: WrittenRepository, name: str, time: datetime, after: datetime) -> None:
    file = written.folder / "snapshots" / name
    data = file.read_bytes()
    _, payload = unwrap(data, FileType.SNAPSHOT, name)
    table = struct.unpack_from("<I", payload)[0]
    slots = table - struct.unpack_from("<i", payload, table)[0]
    at = table + struct.unpack_from("<H", payload, slots + 4 + 2 * _FLUSHED_AT)[0]
    if from_micros(struct.unpack_from("<Q", payload, at)[0]) <= after:
        return
    changed = bytearray(payload)
    struct.pack_into("<Q", changed, at, to_micros(time))
    modified = file.stat().st_mtime
    frame: bytes = pa.compress(bytes(changed), codec="zstd", asbytes=True)
    file.write_bytes(data[:HEADER_BYTES] + frame)
    os.utime(file, (modified, modified))

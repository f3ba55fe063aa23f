"""The files of a shelf: how they are named, and how snapshots and manifests are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound
from reclaim.storage import KeyRange, Storage
from reclaim.storage.key_range import spread
from reclaim.stores.format import (
    CONTAINERS,
    ENTRIES,
    QUARANTINE,
    REASONS,
    RECORD,
    WORK,
    ReadsBytes,
    ReadsContainers,
)
from reclaim.stores.sidecar.records import FILE as RUN_FILE
from tests.stores.shelf.library import ATTRIBUTES, CHUNKS, MANIFESTS, SNAPSHOTS

CHUNK, MANIFEST, SNAPSHOT, ATTRIBUTES_FILE = "chunk", "manifest", "snapshot", "attributes"
RUN, UNKNOWN = "run", "unknown"
OURS = ".reclaim"
HEX = "0123456789abcdef"
PIECES = 8
"""How many key ranges a flat folder is cut into."""


@dataclass(frozen=True, slots=True)
class ShelfFormat(ReadsContainers):
    """The root is the folder above the shelf, so that nothing of it lies outside the prefix."""

    name: str

    own_folder: ClassVar[str] = OURS

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    @property
    def order(self) -> Sequence[str]:
        # A crash in between leaves metadata that points at nothing, never data without any.
        return CHUNK, MANIFEST, ATTRIBUTES_FILE, SNAPSHOT, WORK, RECORD

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((SNAPSHOT,))

    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        for folder in (CHUNKS, MANIFESTS):
            yield from spread(f"{self.prefix}{folder}", HEX, PIECES)
        for folder in (SNAPSHOTS, ATTRIBUTES):
            yield KeyRange(f"{self.prefix}{folder}")
        runs, _ = storage.folders(f"{self.prefix}{OURS}/runs")
        yield from map(KeyRange, runs)

    @property
    def reasons(self) -> Mapping[str, str]:
        unfinished = "written for a commit that did not come to its end"
        return {
            **dict.fromkeys((CHUNK, MANIFEST, ATTRIBUTES_FILE, SNAPSHOT), unfinished),
            **REASONS,
        }

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        inside = pc.starts_with(addresses, self.prefix)
        below = pc.utf8_slice_codeunits(addresses, len(self.prefix))

        def like(pattern: str) -> pa.Array:
            return pc.and_(inside, pc.match_substring_regex(below, f"^{pattern}$"))

        runs = rf"\{OURS}/runs/[^/]+"
        kind = pc.case_when(
            pc.make_struct(
                like(f"{CHUNKS}/[0-9a-f]+"),
                like(f"{MANIFESTS}/[0-9a-f]+"),
                like(f"{ATTRIBUTES}/[0-9a-f]+"),
                like(f"{SNAPSHOTS}/[0-9a-f]+"),
                like(f"{runs}/{RUN_FILE}"),
                like(f"{runs}/(.+/)?work/.+"),
                like(f"{runs}/.+"),
                like(rf"\{OURS}/{QUARANTINE}/.+"),
            ),
            *(CHUNK, MANIFEST, ATTRIBUTES_FILE, SNAPSHOT, RUN, WORK, RECORD, QUARANTINE, UNKNOWN),
        )
        blank = pa.array([""]).take(pa.array([0] * len(addresses), pa.int64()))
        return pc.make_struct(kind, blank, blank, field_names=["kind", "belongs_to", "guard"])

    @property
    def has_paths(self) -> bool:
        return True

    def containers(self, storage: ReadsBytes, address: str) -> pa.Table:
        """The manifests of a snapshot."""
        listed = _read(storage, address)["manifests"]
        columns = (
            [f"{self.prefix}{MANIFESTS}/{one['id']}" for one in listed],
            [MANIFEST] * len(listed),
            [""] * len(listed),
            [one["chunks"] for one in listed],
            [0] * len(listed),
        )
        arrays = [pa.array(c, f.type) for c, f in zip(columns, CONTAINERS, strict=True)]
        return pa.table(arrays, schema=CONTAINERS)

    def entries(
        self, storage: ReadsBytes, container: Mapping[str, Any], *, paths: bool
    ) -> pa.Table:
        """The chunks of a manifest."""
        address = container["address"]
        chunks = _read(storage, address)["chunks"]
        if len(chunks) != container["entries"]:
            raise Corrupt(
                f"the manifest {address} has {len(chunks)} chunks; its snapshot says "
                f"{container['entries']}",
                hint="restore it from a backup; nothing was deleted",
            )
        path = pa.array(list(chunks), pa.string()) if paths else pa.nulls(len(chunks), pa.string())
        addresses = [f"{self.prefix}{CHUNKS}/{chunk}" for chunk in chunks.values()]
        return pa.table([pa.array(addresses, pa.string()), path], schema=ENTRIES)


def _read(storage: ReadsBytes, address: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(storage.get(address))
    except NotFound as error:
        raise Corrupt(
            f"{address} is missing", hint="restore it from a backup; nothing was deleted"
        ) from error
    except ValueError as error:
        raise Corrupt(f"{address} cannot be read: {error}", hint="nothing was deleted") from error
    return document

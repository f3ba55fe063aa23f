"""The objects of a store and how they are read; what goes to the executors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.base import CONTAINERS, ENTRIES, QUARANTINE, SNAPSHOTS
from reclaim.stores.terminus.addresses import ARCHIVE, OURS, ROLLUP, layer_of
from reclaim.stores.terminus.graph import Edge
from reclaim.stores.terminus.larch import HEAD, needed, parse_header
from reclaim.stores.terminus.layer import (
    DIRECTORY_NEEDS,
    Layer,
    decode_archive,
    decode_directory,
    decode_parts,
)
from reclaim.stores.terminus.view import LayerView

LAYER, ROLLUP_FILE, WORK, RECORD, UNKNOWN = "layer", "rollup", "work", "record", "unknown"
WHOLE = 64 * 1024
"""Archives up to this size are read at once."""
ROLLED_UP = "rolled up"


@dataclass(frozen=True, slots=True)
class TerminusFormat:
    """The files of a store: layers in shards, and our own folder. The root is the folder above."""

    root: str
    name: str

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    @property
    def sequential(self) -> bool:
        return True

    def view(self, storage: Storage) -> LayerView:
        return storage if isinstance(storage, LayerView) else LayerView(storage, self.prefix)

    @property
    def order(self) -> Sequence[str]:
        # A layer that is loaded through another one must not point at nothing.
        return ROLLUP_FILE, LAYER, WORK, RECORD

    def aside(self, run_id: str) -> str:
        return f"{self.prefix}{OURS}/{QUARANTINE}/{run_id}/"

    def units(self, storage: Storage) -> Iterator[str]:
        view = self.view(storage)
        yield from view.shards()
        runs, _ = view.folders(f"{self.prefix}{OURS}/runs")
        yield from runs

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        def like(pattern: str) -> pa.Array:
            return pc.match_substring_regex(addresses, rf"^\Q{self.prefix}\E{pattern}$")

        shard = "[0-9a-f]{3}/[0-9a-f]{40}"
        kind = pc.case_when(
            pc.make_struct(
                like(rf"{shard}(\.larch)?"),
                like(rf"{shard}\.rollup\.hex"),
                like(rf"\{OURS}/runs/[^/]+/(.+/)?work/.+"),
                like(rf"\{OURS}/runs/[^/]+/.+"),
                like(rf"\{OURS}/{QUARANTINE}/.+"),
            ),
            LAYER,
            ROLLUP_FILE,
            WORK,
            RECORD,
            QUARANTINE,
            UNKNOWN,
        )
        blank = pa.array([""]).take(pa.array([0] * len(addresses), pa.int64()))
        return pc.make_struct(kind, blank, blank, field_names=["kind", "branch", "partition"])

    def containers(self, storage: Storage, top: str) -> pa.Table:  # noqa: ARG002
        """The other objects that a layer may have: its rollup file, and the other format.

        Whether they are there makes no difference: what is live is only not taken.
        """
        bare = top.removesuffix(ARCHIVE)
        others = [(bare + ROLLUP, ROLLUP_FILE), (bare if bare != top else bare + ARCHIVE, LAYER)]
        columns = ([one for one, _ in others], [kind for _, kind in others], *_NOTHING)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, CONTAINERS, strict=True)]
        return pa.table(arrays, schema=CONTAINERS)

    def entries(
        self,
        storage: Storage,  # noqa: ARG002
        container: Mapping[str, Any],  # noqa: ARG002
        *,
        paths: bool,  # noqa: ARG002
    ) -> pa.Table:
        return ENTRIES.empty_table()

    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """Read layers, by the address of their archive or directory."""
        view = self.view(storage)
        rows: list[tuple[str, list[str], str, str | None]] = []
        for address in addresses:
            try:
                layer = read_layer(view, address)
            except (Corrupt, UnknownVersion, NotFound, OSError) as fault:
                rows.append((address, [], "", str(fault)))
                continue
            rows.append((address, list(_edges(layer)), ROLLED_UP if layer.rolled_up else "", None))
        columns = zip(*rows, strict=True) if rows else [()] * len(SNAPSHOTS)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SNAPSHOTS, strict=True)]
        return pa.table(arrays, schema=SNAPSHOTS)


_NOTHING = (["", ""], [0, 0], [0, 0])


def read_layer(view: LayerView, address: str) -> Layer:
    """A layer from its archive or directory. Of a large archive only what is needed is read."""
    layer = layer_of(address)
    if layer is None:
        raise Corrupt(f"{address} is not the address of a layer")
    path = str(view.path(address))
    if not address.endswith(ARCHIVE):
        present = os.listdir(path)  # noqa: PTH208 - many small files
        files = {name: _read(f"{path}/{name}") for name in DIRECTORY_NEEDS if name in present}
        return decode_directory(layer, files, present=present)
    rollup = path.removesuffix(ARCHIVE) + ROLLUP
    beside = _read(rollup) if os.path.exists(rollup) else None  # noqa: PTH110
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        head = file.read(WHOLE) or b""
        if len(head) < WHOLE:
            return decode_archive(layer, head, rollup=beside)
        size = os.fstat(file.fileno()).st_size
        archive = parse_header(head[:HEAD])
        values, parent = needed(archive)
        return decode_parts(
            layer,
            archive,
            size=size,
            values=_span(file.fileno(), *values),
            parent=None if parent is None else _span(file.fileno(), *parent),
            rollup=beside,
        )


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.readall()


def _span(handle: int, start: int, end: int) -> bytes:
    found = b""
    while len(found) < end - start:
        piece = os.pread(handle, end - start - len(found), start + len(found))
        if not piece:
            raise Corrupt("an archive was cut off while it was read")
        found += piece
    return found


def _edges(layer: Layer) -> Iterator[str]:
    if layer.parent is not None:
        yield f"{Edge.PARENT}:{layer.parent}"
    if layer.rollup is not None:
        yield f"{Edge.ROLLUP}:{layer.rollup}"
    for name in layer.names:
        yield f"{Edge.DATA}:{name}"


def to_layer(row: Mapping[str, Any]) -> Layer:
    """A layer from what was read of it."""
    found = layer_of(row["address"])
    assert found is not None
    edges: dict[str, list[SnapshotId]] = {}
    for edge in row["edges"]:
        kind, _, target = edge.partition(":")
        edges.setdefault(kind, []).append(target)
    parent, rollup = (next(iter(edges.get(kind, ())), None) for kind in (Edge.PARENT, Edge.ROLLUP))
    names = tuple(edges.get(Edge.DATA, ()))
    return Layer(found, parent, rollup, names, rolled_up=row["note"] == ROLLED_UP)

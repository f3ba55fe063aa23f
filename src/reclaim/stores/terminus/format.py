"""The objects of a store and how they are read; what goes to the executors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import to_micros
from reclaim.errors import Corrupt, NotFound, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.base import CONTAINERS, ENTRIES, QUARANTINE, SNAPSHOTS, TOP
from reclaim.stores.beside.records import FILE as RUN_FILE
from reclaim.stores.terminus.addresses import ARCHIVE, OURS, ROLLUP, layer_of
from reclaim.stores.terminus.larch import HEAD, needed, parse_header
from reclaim.stores.terminus.layer import (
    DIRECTORY_NEEDS,
    Layer,
    decode_archive,
    decode_directory,
    decode_parts,
)
from reclaim.stores.terminus.view import Facts, LayerView, is_shard

LAYER, ROLLUP_FILE, WORK, RECORD, UNKNOWN = "layer", "rollup", "work", "record", "unknown"
RUN = "run"
"""What says that there was a run. It stays: without it nobody finds what the run set aside."""
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
                like(rf"\{OURS}/runs/[^/]+/{re.escape(RUN_FILE)}"),
                like(rf"\{OURS}/runs/[^/]+/(.+/)?work/.+"),
                like(rf"\{OURS}/runs/[^/]+/.+"),
                like(rf"\{OURS}/{QUARANTINE}/.+"),
            ),
            LAYER,
            ROLLUP_FILE,
            RUN,
            WORK,
            RECORD,
            QUARANTINE,
            UNKNOWN,
        )
        blank = pa.array([""]).take(pa.array([0] * len(addresses), pa.int64()))
        return pc.make_struct(kind, blank, blank, field_names=["kind", "branch", "partition"])

    def flatten(self, tops: pa.Table) -> pa.Table:
        """The objects that layers may have: an archive, a directory, a rollup file.

        Whether they are there makes no difference: what is live is only not taken.
        """
        bare = pc.replace_substring_regex(tops.column("address"), r"\.larch$", "")
        kinds = {ARCHIVE: LAYER, "": LAYER, ROLLUP: ROLLUP_FILE}
        tables = []
        for suffix, kind in kinds.items():
            rows = tops.num_rows
            columns = (
                pc.binary_join_element_wise(bare, suffix, ""),
                _repeat(kind, rows),
                _repeat(TOP, rows),
                pa.array(np.zeros(rows, np.int64)),
                tops.column("cause"),
            )
            tables.append(pa.table(columns, schema=CONTAINERS))
        return pa.concat_tables(tables)

    def containers(self, storage: Storage, top: str) -> pa.Table:  # noqa: ARG002
        return CONTAINERS.empty_table()

    def entries(
        self,
        storage: Storage,  # noqa: ARG002
        container: Mapping[str, Any],  # noqa: ARG002
        *,
        paths: bool,  # noqa: ARG002
    ) -> pa.Table:
        return ENTRIES.empty_table()

    def survey(self, storage: Storage, units: Sequence[str]) -> pa.Table:
        """The objects in folders, and of each layer what it refers to."""
        view = self.view(storage)
        listed: list[Facts] = []
        for unit in units:
            if is_shard(unit):
                listed += view.layers(unit)
            else:
                listed += (
                    (one.address, one.size, to_micros(one.last_modified)) for one in view.list(unit)
                )
        rollups = {one[0] for one in listed if one[0].endswith(ROLLUP)}
        return _rows(view, listed, lambda base: base + ROLLUP in rollups)

    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """Some layers, by the address of their archive or directory."""
        view = self.view(storage)
        listed = []
        for address in addresses:
            try:
                one = view.head(address)
            except NotFound:
                # Whoever asked has seen it, so that it is missed.
                listed.append((address, 0, 0))
            else:
                listed.append((address, one.size, to_micros(one.last_modified)))
        return _rows(view, listed, lambda _base: None)


def _rows(
    view: LayerView, listed: Sequence[Facts], rolled: Callable[[str], bool | None]
) -> pa.Table:
    rows: list[tuple[str, int, int, str, str, str | None]] = []
    for address, size, changed in listed:
        edges, note, fault = "", "", None
        found = None if address.endswith(ROLLUP) else layer_of(address)
        if found is not None:
            try:
                beside = rolled(address.removesuffix(ARCHIVE))
                layer = read_layer(view, address, rolled=beside, layer=found)
                edges, note = _told(layer)
            except (Corrupt, UnknownVersion, OSError) as error:
                fault = str(error)
        rows.append((address, size, changed, edges, note, fault))
    columns = zip(*rows, strict=True) if rows else [()] * len(SNAPSHOTS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SNAPSHOTS, strict=True)]
    return pa.table(arrays, schema=SNAPSHOTS)


def _repeat(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def read_layer(
    view: LayerView,
    address: str,
    *,
    rolled: bool | None = None,
    layer: SnapshotId | None = None,
) -> Layer:
    """A layer from its archive or directory. Of a large archive only what is needed is read.

    ``rolled`` says whether an archive has a rollup file beside it, for who knows that already.
    """
    layer = layer or layer_of(address)
    if layer is None:
        raise Corrupt(f"{address} is not the address of a layer")
    path = f"{view.root}/{address}"
    if not address.endswith(ARCHIVE):
        present = os.listdir(path)  # noqa: PTH208 - many small files
        files = {name: _read(f"{path}/{name}") for name in DIRECTORY_NEEDS if name in present}
        return decode_directory(layer, files, present=present)
    rollup = path.removesuffix(ARCHIVE) + ROLLUP
    if rolled is None:
        rolled = os.path.exists(rollup)  # noqa: PTH110
    beside = _read(rollup) if rolled else None
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


def _told(layer: Layer) -> tuple[str, str]:
    """What a layer refers to, in one word: parent, rollup, and then the ids in it."""
    edges = f"{layer.parent or ''},{layer.rollup or ''},{','.join(layer.names)}"
    return edges, ROLLED_UP if layer.rolled_up else ""


def to_layer(found: SnapshotId, edges: str, note: str) -> Layer:
    """A layer from what was told of it."""
    parent, rollup, *names = cast("list[SnapshotId]", edges.split(","))
    ids = tuple(names) if names[0] else ()
    return Layer(found, parent or None, rollup or None, ids, rolled_up=note == ROLLED_UP)

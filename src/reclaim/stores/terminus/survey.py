"""The layers of a store: what is there, and what each refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from reclaim.clock import to_micros
from reclaim.errors import Corrupt, Gone, NotFound, UnknownVersion
from reclaim.model import SnapshotId, StoredObject
from reclaim.storage import Storage
from reclaim.stores.base import Reader
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP, layer_of, stem
from reclaim.stores.terminus.format import TerminusFormat, read_layer, to_layer
from reclaim.stores.terminus.layer import Layer


@dataclass(frozen=True, slots=True)
class Listed:
    """The objects of one layer: the one to read, and the time of the latest change."""

    address: str
    changed: int
    """In microseconds, for there may be very many."""


Listing = Mapping[SnapshotId, Listed]


@dataclass(frozen=True, slots=True)
class Found:
    """Layers that were read, and those that cannot be, with the reason.

    ``listed`` has them all, also some that were not asked for: others need them.
    """

    listed: Listing
    layers: Mapping[SnapshotId, Layer]
    broken: Mapping[SnapshotId, str]


class Survey:
    """Lists and reads layers. One that could be read is read once, for it never changes."""

    def __init__(self, format: TerminusFormat, storage: Storage) -> None:
        self._format = format
        self._view = format.view(storage)
        self._known: dict[tuple[str, int], Layer] = {}

    def every(self) -> Listing:
        """Every layer that is there, in either format."""
        shards = self._view.shards()
        found = (one for shard in shards for one in self._view.layers(shard))
        return group((address, changed) for address, _, changed in found)[0]

    def look(self, reader: Reader) -> pa.Table:
        """List every layer and read it at once, where the reader reads."""
        return reader.survey(self._format, self._view.shards())

    def take(self, rows: pa.Table) -> Listing:
        """Every layer in what was listed and read at once; what could be read is remembered."""
        address, edges, note, fault = (
            rows.column(name).to_pylist() for name in ("address", "edges", "note", "fault")
        )
        changed = rows.column("last_modified").cast(pa.int64()).to_pylist()
        listed, places = group(zip(address, changed, strict=True))
        for layer, at in places.items():
            if fault[at] is None:
                # When it changed last is when any of its objects did.
                key = address[at], listed[layer].changed
                self._known[key] = to_layer(layer, edges[at], note[at])
        return listed

    def more(self, listed: Listing) -> Listing:
        """The layers that came since they were listed.

        What a label names was written before the label was. So a listing that is begun after
        the labels were read has all that they reach, which an earlier one need not have.
        """
        come = {
            layer
            for shard in self._view.shards()
            for name in self._view.names(shard)
            if (layer := layer_of(f"{shard}/{name}")) is not None and layer not in listed
        }
        return self._look(come)

    def aside(self, run_id: str) -> dict[SnapshotId, list[str]]:
        """What a run has set aside, by layer."""
        found: dict[SnapshotId, list[str]] = {}
        shards, _ = self._view.folders(self._format.aside(run_id).rstrip("/"))
        for shard in shards:
            for one in self._view.list(shard):
                if layer := layer_of(one.address):
                    found.setdefault(layer, []).append(one.address)
        return found

    def read(self, listed: Listing, reader: Reader) -> Found:
        """Read layers, and what they cannot be loaded without if it came after the listing."""
        layers: dict[SnapshotId, Layer] = {}
        broken: dict[SnapshotId, str] = {}
        every, waiting = dict(listed), dict(listed)
        while waiting:
            self._decode(waiting, reader, layers, broken)
            missing = {
                target
                for one in waiting
                for target in graph.targets(layers.get(one))
                if target not in every
            }
            waiting = self._look(missing)
            every |= waiting
        return Found(every, layers, broken)

    def read_at(self, addresses: Sequence[str], reader: Reader) -> dict[SnapshotId, Layer]:
        """The layers at some addresses, wherever these lie; without those that cannot be read."""
        rows = reader.snapshots(self._format, addresses).to_pylist() if addresses else []
        found = (_layer(row) for row in rows if row["fault"] is None)
        return {layer.id: layer for layer in found}

    def fault(self, layer: SnapshotId, listed: Listing) -> str | None:
        """Why a layer cannot be loaded; None if it can."""
        if layer not in listed:
            return "it is not there"
        try:
            found = read_layer(self._view, listed[layer].address)
        except (Corrupt, UnknownVersion, OSError) as error:
            return str(error)
        missing = [one for one in graph.targets(found) if one not in listed]
        return f"it needs {missing[0]}, which is not there" if missing else None

    def needs(self, layer: SnapshotId) -> Collection[SnapshotId]:
        """A layer and all that it keeps alive, read now; also ids that need not be layers."""
        wanted, must, absent = {layer}, {layer}, set[SnapshotId]()
        waiting = [layer]
        while waiting:
            one = waiting.pop()
            try:
                found = read_layer(self._view, self._address(one))
            except (FileNotFoundError, NotFound):
                absent.add(one)
                continue
            must.update(graph.targets(found))
            new = {target for _, target in graph.edges_of(found)} - wanted
            wanted |= new
            waiting += new
        if lost := absent & must:
            one = min(lost)
            raise Gone(f"there is no layer {one}", hint="it may have been collected", layer=one)
        return wanted

    def _decode(
        self,
        listed: Listing,
        reader: Reader,
        layers: dict[SnapshotId, Layer],
        broken: dict[SnapshotId, str],
    ) -> None:
        known = self._known
        new = [one.address for one in listed.values() if (one.address, one.changed) not in known]
        rows = reader.snapshots(self._format, new).to_pylist() if new else []
        told = {row["address"]: row for row in rows}
        if len(told) != len(set(new)):
            raise Corrupt(f"{len(set(new))} layers were to be read and {len(told)} were")
        for layer, one in listed.items():
            key = one.address, one.changed
            if key not in known:
                row = told[one.address]
                if row["fault"] is not None:
                    # Not remembered: it may be being written just now.
                    broken[layer] = row["fault"]
                    continue
                known[key] = _layer(row)
            layers[layer] = known[key]

    def _look(self, layers: Collection[SnapshotId]) -> dict[SnapshotId, Listed]:
        """Those of some layers that are there, looked up one by one."""
        objects: list[StoredObject] = []
        for layer in layers:
            base = f"{self._format.prefix}{stem(layer)}"
            for address in (base, base + ARCHIVE, base + ROLLUP):
                try:
                    objects.append(self._view.head(address))
                except NotFound:
                    continue
        return group((one.address, to_micros(one.last_modified)) for one in objects)[0]

    def _address(self, layer: SnapshotId) -> str:
        base = f"{self._format.prefix}{stem(layer)}"
        return base + ARCHIVE if self._view.path(base + ARCHIVE).exists() else base


def _layer(row: Mapping[str, str]) -> Layer:
    found = layer_of(row["address"])
    assert found is not None
    return to_layer(found, row["edges"], row["note"])


def group(
    objects: Iterable[tuple[str, int]],
) -> tuple[dict[SnapshotId, Listed], dict[SnapshotId, int]]:
    """Layers from the addresses and times of objects, and which object is read of each.

    Of both formats the archive is read, as servers do.
    """
    found: dict[SnapshotId, tuple[str, int]] = {}
    times: dict[SnapshotId, int] = {}
    for at, (address, changed) in enumerate(objects):
        layer = layer_of(address)
        if layer is None:
            continue
        times[layer] = max(times.get(layer, 0), changed)
        if not address.endswith(ROLLUP):
            before = found.get(layer)
            if before is None or not before[0].endswith(ARCHIVE):
                found[layer] = address, at
    # A rollup file without a layer is no layer.
    listed = {layer: Listed(address, times[layer]) for layer, (address, _) in found.items()}
    return listed, {layer: at for layer, (_, at) in found.items()}

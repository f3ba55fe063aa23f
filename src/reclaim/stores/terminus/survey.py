"""Survey of the layers of a store: their objects and references."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, Gone, NotFound, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.storage import KeyRange, Storage
from reclaim.stores.format import SNAPSHOTS, Reader
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP, STEM_SIZE, layer_of, stem
from reclaim.stores.terminus.format import LAYER, ROLLUP_FILE, TerminusFormat
from reclaim.stores.terminus.layer import parse_rollup
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.reading import read_layer
from reclaim.stores.terminus.tfc import ID_SIZE

NOT_THERE = "is not there"
"""End of a sentence about a missing layer, or a missing dependency."""


class LayerSurvey:
    """Lists and reads the layers of a store."""

    def __init__(self, format: TerminusFormat, storage: Storage) -> None:
        self.format = format
        self.view = self._view = format.view(storage)

    def read_all(self, reader: Reader) -> pa.Table:
        """List and read every layer, using the reader."""
        return reader.survey(self.format, [KeyRange(shard) for shard in self._view.shards()])

    def list_addresses(self) -> pa.Array:
        """Addresses of all objects in the shards named like a layer's object."""
        shards = self._view.shards()
        names = [
            pa.array([f"{shard}/{name}" for name in self._view.names(shard)], pa.string())
            for shard in shards
        ]
        addresses = pa.concat_arrays([pa.array([], pa.string()), *names])
        kinds = self.format.describe(addresses).field("kind")
        return addresses.filter(pc.is_in(kinds, pa.array([LAYER, ROLLUP_FILE])))

    def ids(self, named: pa.Array) -> pa.Array:
        """Distinct layers with an archive or directory among the addresses."""
        return self._layers(named.filter(pc.invert(pc.ends_with(named, ROLLUP)))).unique()

    def complete(self, listed: Layers, named: pa.Array, reader: Reader) -> Layers:
        """Add the layers ``named`` by now but created since they were listed.

        A layer is written before its label. A listing of names started after the labels were read
        therefore contains all layers reached by them, unlike an earlier listing. The same holds for
        the dependencies of a layer, once the layer was read. Unreadable layers may have been in the
        middle of a write, and are read again.
        """
        layers = listed
        added: Sequence[str] = [*self._added(listed, named), *listed.broken()]
        looked_for: set[SnapshotId] = set()
        while True:
            if added:
                layers = Layers.of(pa.concat_tables([layers.rows, self.read(added, reader)]))
            missing = set(layers.missing()) - looked_for
            if not missing:
                return layers
            looked_for |= missing
            added = self._existing(missing)

    def read(self, addresses: Sequence[str], reader: Reader) -> pa.Table:
        """Read objects at any address, as ``SNAPSHOTS``."""
        if not addresses:
            return SNAPSHOTS.empty_table()
        rows = reader.snapshots(self.format, addresses)
        if rows.num_rows != len(addresses):
            raise Corrupt(f"{len(addresses)} objects were requested and {rows.num_rows} were read")
        return rows

    def quarantined(self, run_id: str) -> dict[SnapshotId, list[str]]:
        """Quarantined objects of a run, by layer."""
        by_layer: dict[SnapshotId, list[str]] = {}
        shards, _ = self._view.folders(self.format.quarantine_path(run_id).rstrip("/"))
        for shard in shards:
            for stored in self._view.list(shard):
                if layer := layer_of(stored.address):
                    by_layer.setdefault(layer, []).append(stored.address)
        return by_layer

    def rollup_in(self, file: str) -> SnapshotId | None:
        """Layer named by a rollup file; None if the file holds no id or is missing."""
        try:
            return parse_rollup(self._view.get(file))
        except (Corrupt, NotFound):
            return None

    def fault(self, layer: SnapshotId) -> str | None:
        """Reason why a layer cannot be loaded; None if it can."""
        try:
            decoded = read_layer(self._view, self._readable_address(layer))
        except FileNotFoundError:
            return f"it {NOT_THERE}"
        except (Corrupt, UnknownVersion, OSError) as error:
            return str(error)
        missing = [
            needed for needed in decoded.needs() if not self._existing([needed], (ARCHIVE, ""))
        ]
        return f"it needs {missing[0]}, which {NOT_THERE}" if missing else None

    def needs(self, layer: SnapshotId) -> Collection[SnapshotId]:
        """A layer and all layers referenced from it, read now; includes ids which may not be
        layers.
        """
        referenced, required, absent = {layer}, {layer}, set[SnapshotId]()
        waiting = [layer]
        while waiting:
            current = waiting.pop()
            try:
                decoded = read_layer(self._view, self._readable_address(current))
            except (FileNotFoundError, NotFound):
                absent.add(current)
                continue
            required.update(decoded.needs())
            new = {*decoded.needs(), *decoded.names} - referenced
            referenced |= new
            waiting += new
        if lost := absent & required:
            current = min(lost)
            raise Gone(
                f"there is no layer {current}", hint="it may have been collected", layer=current
            )
        return referenced

    def _added(self, listed: Layers, named: pa.Array) -> Sequence[str]:
        """Objects of layers created since the listing."""
        # Layers missing before and present now are handled by ``complete``.
        known = pc.is_in(self._layers(named), pa.array(listed.graph.ids, pa.string()))
        added: list[str] = named.filter(pc.invert(known)).to_pylist()
        return added

    def _layers(self, named: pa.Array) -> pa.Array:
        """Layer of each of some objects in the shards."""
        start = len(self.format.prefix) + STEM_SIZE - ID_SIZE
        return pc.utf8_slice_codeunits(named, start, start + ID_SIZE)

    def _existing(
        self, layers: Iterable[SnapshotId], ends: Collection[str] = (ARCHIVE, "", ROLLUP)
    ) -> Sequence[str]:
        """Return the existing objects among the possible objects of some layers."""
        bases = (f"{self.format.prefix}{stem(layer)}" for layer in layers)
        addresses = (base + end for base in bases for end in ends)
        return [address for address, _, _ in self._view.there(addresses)]

    def _readable_address(self, layer: SnapshotId) -> str:
        base = f"{self.format.prefix}{stem(layer)}"
        return base + ARCHIVE if self._view.path(base + ARCHIVE).exists() else base

"""Objects of a store and their decoding; sent to the executors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.model import SnapshotId
from reclaim.storage import KeyRange, Storage
from reclaim.stores.format import QUARANTINE, RECORD, WORK, DecodesSnapshots
from reclaim.stores.named_containers import NamedContainers
from reclaim.stores.sidecar.records import FILE as RUN_FILE
from reclaim.stores.terminus.addresses import ARCHIVE, OURS, ROLLUP, SHARD_SIZE, stem
from reclaim.stores.terminus.reading import bare_objects, read_layers
from reclaim.stores.terminus.view import LayerView, is_shard

LAYER, ROLLUP_FILE, UNKNOWN = "layer", "rollup", "unknown"
DIRECTORY = "directory"
"""Container kind of a layer stored as a directory instead of an archive. As an object it is a
layer.
"""
RUN = "run"
"""Kind of the file marking a run. It is kept: without it the run's quarantine cannot be found."""


@dataclass(frozen=True, slots=True)
class TerminusFormat(DecodesSnapshots):
    """Files of a store: layers in shards, and Reclaim's folder. The root is the parent folder."""

    name: str

    own_folder: ClassVar[str] = OURS
    sequential: ClassVar[bool] = True

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    def view(self, storage: Storage) -> LayerView:
        return storage if isinstance(storage, LayerView) else LayerView(storage, self.prefix)

    @property
    def order(self) -> Sequence[str]:
        # A layer loaded through a rollup must not lose it.
        return ROLLUP_FILE, LAYER, WORK, RECORD

    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        view = self.view(storage)
        yield from map(KeyRange, view.shards())
        runs, _ = view.folders(f"{self.prefix}{OURS}/runs")
        yield from map(KeyRange, runs)

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        inside = pc.starts_with(addresses, self.prefix)
        # By length instead of a pattern: the folder may have any name.
        below = pc.utf8_slice_codeunits(addresses, len(self.prefix))
        folder = f"{OURS}/{QUARANTINE}/"

        def like(pattern: str, text: pa.Array = below) -> pa.Array:
            return pc.and_(inside, pc.match_substring_regex(text, f"^{pattern}$"))

        def in_shard(text: pa.Array) -> pa.Array:
            """Whether the shard matches the id, for names shaped like a layer's object."""
            return pc.equal(
                pc.utf8_slice_codeunits(text, 0, 3), pc.utf8_slice_codeunits(text, 4, 7)
            )

        layer = "[0-9a-f]{3}/[0-9a-f]{40}"
        set_aside = pc.and_(pc.starts_with(below, folder), inside)
        original = pc.replace_substring_regex(below, rf"^{re.escape(folder)}[^/]+/", "")
        kind = pc.case_when(
            pc.make_struct(
                pc.and_(like(rf"{layer}(\.larch)?"), in_shard(below)),
                pc.and_(like(rf"{layer}\.rollup\.hex"), in_shard(below)),
                like(rf"\{OURS}/runs/[^/]+/{re.escape(RUN_FILE)}"),
                like(rf"\{OURS}/runs/[^/]+/(.+/)?work/.+"),
                like(rf"\{OURS}/runs/[^/]+/.+"),
                pc.and_(
                    set_aside,
                    pc.or_(
                        pc.and_(
                            like(rf"{layer}(\.larch|\.rollup\.hex)?", original), in_shard(original)
                        ),
                        like(rf"\{OURS}/runs/.+", original),
                    ),
                ),
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
        return pc.make_struct(kind, blank, blank, field_names=["kind", "belongs_to", "guard"])

    def layer_objects(
        self, layers: Sequence[SnapshotId], known: Collection[SnapshotId]
    ) -> Mapping[str, NamedContainers]:
        """Possible objects of layers, by kind: an archive, a directory, a rollup file.

        Missing objects are harmless: being listed here only protects an object.
        """
        ids = pa.array(layers, pa.string())
        shards = pc.utf8_slice_codeunits(ids, 0, SHARD_SIZE)

        def named(end: str) -> NamedContainers:
            column = pc.binary_join_element_wise(self.prefix, shards, "/", ids, end, "")
            return NamedContainers(
                layers, known, column, lambda layer: f"{self.prefix}{stem(layer)}{end}"
            )

        return {LAYER: named(ARCHIVE), DIRECTORY: named(""), ROLLUP_FILE: named(ROLLUP)}

    def has_snapshots(self, keys: KeyRange) -> bool:
        return is_shard(keys.prefix)

    def survey(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """Objects in shards, with the references of each layer."""
        view = self.view(storage)
        addresses = [address for keys in ranges for address in view.addresses(keys)]
        rollups = {address for address in addresses if address.endswith(ROLLUP)}
        # Objects deleted during the listing are omitted.
        return read_layers(view, addresses, rollups).rows

    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """Some layers, by the address of their archive or directory."""
        view = self.view(storage)
        rollups = (address.removesuffix(ARCHIVE) + ROLLUP for address in addresses)
        result = read_layers(view, addresses, {facts[0] for facts in view.there(rollups)})
        # The caller has seen them, so a missing object is a fault.
        gone = [(address, 0, 0) for address in result.gone]
        return pa.concat_tables([result.rows, bare_objects(gone, fault="it was deleted")])

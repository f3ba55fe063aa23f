"""Two whole stores that the real library wrote, and how any store in a folder is read."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId
from reclaim.stores.terminus.labels import Label, parse_label
from reclaim.stores.terminus.layer import Layer, decode_archive, decode_directory

FIXTURES = Path(__file__).parent / "fixtures"
LAYER_ID = re.compile("[0-9a-f]{40}")
FORMATS = ("archive", "directory")


@dataclass(frozen=True)
class Contents:
    """All of a store: what could be read of it, and what could not."""

    layers: dict[SnapshotId, Layer]
    broken: dict[SnapshotId, str]
    labels: dict[str, Label]

    @property
    def ids(self) -> set[SnapshotId]:
        return {*self.layers, *self.broken}

    @property
    def roots(self) -> dict[SnapshotId, str]:
        return {
            label.layer: f"the label {label.name}"
            for label in self.labels.values()
            if label.layer is not None
        }


@dataclass(frozen=True)
class Sample:
    """A real store, unpacked, with the layers that live and die in it."""

    folder: Path
    live: frozenset[str]
    dead: frozenset[str]
    labels: dict[str, tuple[int, str | None]]


def unpack(name: str, folder: Path) -> Sample:
    with tarfile.open(FIXTURES / f"sample-{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    expected = json.loads((FIXTURES / f"sample-{name}.expected.json").read_text())
    return Sample(
        folder / name,
        frozenset(expected["live"]),
        frozenset(expected["dead"]),
        {key: (one["version"], one["layer"]) for key, one in expected["labels"].items()},
    )


def read_store(folder: Path) -> Contents:
    """Every layer and label of a store in a folder, in either format."""
    contents = Contents({}, {}, {})
    for path in folder.glob("[0-9a-f]" * 3 + "/*"):
        layer = SnapshotId(path.name.removesuffix(".larch"))
        if not LAYER_ID.fullmatch(layer) or not layer.startswith(path.parent.name):
            # A rollup file, or no layer's at all.
            continue
        try:
            contents.layers[layer] = _read_layer(layer, path)
        except Corrupt as fault:
            contents.broken[layer] = fault.message
    for path in folder.glob("*.label"):
        label = parse_label(path.name, path.read_bytes())
        contents.labels[label.name] = label
    return contents


def _read_layer(layer: SnapshotId, path: Path) -> Layer:
    if path.is_dir():
        return decode_directory(layer, {file.name: file.read_bytes() for file in path.iterdir()})
    rollup = path.with_name(f"{layer}.rollup.hex")
    return decode_archive(
        layer, path.read_bytes(), rollup=rollup.read_bytes() if rollup.exists() else None
    )

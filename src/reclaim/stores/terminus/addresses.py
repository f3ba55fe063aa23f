"""Paths in a store's folder: layers in shards, Reclaim's own files in a hidden folder."""

from __future__ import annotations

import re

from reclaim.model import SnapshotId

OURS = ".reclaim"
"""Folder of Reclaim's own files. Servers ignore it."""

ARCHIVE, ROLLUP = ".larch", ".rollup.hex"
SHARD_SIZE = 3
STEM_SIZE = SHARD_SIZE + 1 + 40
"""Length of the names of a layer's objects, without suffix."""
SHARD = re.compile(f"[0-9a-f]{{{SHARD_SIZE}}}")
_FILE = re.compile(
    rf"(?:^|/)([0-9a-f]{{3}})/(\1[0-9a-f]{{37}})(?:{re.escape(ARCHIVE)}|{re.escape(ROLLUP)})?\Z"
)


def stem(layer: SnapshotId) -> str:
    """Common prefix of the names of a layer's objects; also its directory, if any."""
    return f"{layer[:3]}/{layer}"


def is_layer(name: str) -> bool:
    """Whether a name, relative to the store's folder, is the name of a layer's object."""
    return _FILE.match(name) is not None


def layer_of(address: str) -> SnapshotId | None:
    """Layer owning an object, wherever its shard is; None for other objects."""
    match = _FILE.search(address)
    return SnapshotId(match[2]) if match else None

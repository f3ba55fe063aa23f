"""Where things are in a store's folder: layers in shards, ours in a folder with a dot."""

from __future__ import annotations

import re

from reclaim.model import SnapshotId

OURS = ".reclaim"
"""Everything of ours. A server takes no notice of such a folder."""

ARCHIVE, ROLLUP = ".larch", ".rollup.hex"
SHARD_SIZE = 3
STEM_SIZE = SHARD_SIZE + 1 + 40
"""How long the names of a layer's objects are, without what they end with."""
SHARD = re.compile(f"[0-9a-f]{{{SHARD_SIZE}}}")
_FILE = re.compile(
    rf"(?:^|/)([0-9a-f]{{3}})/(\1[0-9a-f]{{37}})(?:{re.escape(ARCHIVE)}|{re.escape(ROLLUP)})?\Z"
)


def stem(layer: SnapshotId) -> str:
    """The prefix of the names of a layer's objects; its directory, if it has one."""
    return f"{layer[:3]}/{layer}"


def is_layer(name: str) -> bool:
    """Whether a name, from the store's folder on, is that of a layer's object."""
    return _FILE.match(name) is not None


def layer_of(address: str) -> SnapshotId | None:
    """The layer that an object belongs to, wherever the shard lies; None for other objects."""
    match = _FILE.search(address)
    return SnapshotId(match[2]) if match else None

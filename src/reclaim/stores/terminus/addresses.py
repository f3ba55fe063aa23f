"""Where things are in a store's folder: layers in shards, ours in a folder with a dot."""

from __future__ import annotations

import re

from reclaim.model import SnapshotId
from reclaim.stores.terminus.files import ROLLUP_FILE

OURS = ".reclaim"
"""Everything of ours. A server takes no notice of such a folder."""

ARCHIVE, ROLLUP = ".larch", ".rollup.hex"
SHARD = re.compile("[0-9a-f]{3}")
LAYER = re.compile(r"(?:.*/)?(?P<shard>[0-9a-f]{3})/(?P<id>(?P=shard)[0-9a-f]{37})")
_FILE = re.compile(LAYER.pattern + rf"(?:{re.escape(ARCHIVE)}|{re.escape(ROLLUP)})?")


def stem(layer: SnapshotId) -> str:
    """What the names of a layer's objects begin with; its directory, if it has one."""
    return f"{layer[:3]}/{layer}"


def layer_of(address: str) -> SnapshotId | None:
    """The layer that an object belongs to, wherever the shard lies; None for other objects."""
    match = _FILE.fullmatch(address)
    return SnapshotId(match["id"]) if match else None


__all__ = ["ARCHIVE", "LAYER", "OURS", "ROLLUP", "ROLLUP_FILE", "SHARD", "layer_of", "stem"]

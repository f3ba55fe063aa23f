"""The labels of a store, read as its servers write them, and what must be refused at sight."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from reclaim.errors import NotFound, Refused
from reclaim.storage import translated
from reclaim.stores.terminus import labels, version
from reclaim.stores.terminus.labels import Label

AWAY = "labels may live on another host; without them what they keep looks dead"


def read_labels(folder: Path) -> Sequence[Label]:
    """Every label, each under its lock. Without the labels that there must be it is refused."""
    path = folder / version.FILE
    with translated("read", str(path)):
        server = version.check_version(path.read_bytes() if path.exists() else None)
    found = _read_all(folder)
    if not found:
        raise Refused(f"{folder} has no labels", hint=AWAY)
    if server and (missing := labels.missing_system(found)):
        raise Refused(f"the label {missing[0]} of the server itself is missing or empty", hint=AWAY)
    if all(label.layer is None for label in found):
        raise Refused(f"no label of {folder} names a layer", hint=AWAY)
    return found


def _read_all(folder: Path) -> Sequence[Label]:
    while True:
        with translated("list", str(folder)):
            names = os.listdir(folder)  # noqa: PTH208 - many small files
            files = sorted(name for name in names if name.endswith(labels.SUFFIX))
        try:
            return [labels.parse_label(file, _read_locked(f"{folder}/{file}")) for file in files]
        except NotFound:
            # A database was deleted while we looked: look again.
            continue


def _read_locked(file: str) -> bytes:
    """A label under a shared lock: it is rewritten in place under an exclusive one."""
    with translated("read", file), open(file, "rb", buffering=0) as found:  # noqa: PTH123
        fcntl.flock(found, fcntl.LOCK_SH)
        return found.readall()

"""The labels of a store, read as its servers write them, and what must be refused at sight."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from reclaim.errors import NotFound, OutOfTime, Refused, UnsafeFolder
from reclaim.storage import translated
from reclaim.stores.terminus import labels, version
from reclaim.stores.terminus.folder import READ
from reclaim.stores.terminus.labels import Label

AWAY = "if its labels are on another host, run there: without labels live layers look dead"

ROUNDS = 20
"""How often labels are read before those who write them are asked to pause."""
TRIES, PAUSE = 600, 0.05
"""How often a label that is locked is tried, and the seconds in between: half a minute in all. A
server locks a label for as long as it takes to write a few bytes."""
LONGEST = 1024
"""More than this is not read of a label, nor of the version: neither is so long."""


def read_labels(folder: Path) -> Sequence[Label]:
    """Every label, each under its lock. Without the labels that there must be it is refused."""
    path = folder / version.FILE
    with translated("read", str(path)):
        server = version.check_version(_version(path))
    found = _read_all(folder)
    if not found:
        raise Refused(f"{folder} is not a TerminusDB store: it has no *.label files", hint=AWAY)
    if server and (missing := labels.missing_system(found)):
        raise Refused(f"the label {missing[0]} of the server itself is missing or empty", hint=AWAY)
    if all(label.layer is None for label in found):
        raise Refused(f"no label of {folder} names a layer", hint=AWAY)
    return found


def _version(path: Path) -> bytes | None:
    # Through a link as well: a version that is not read would count as none.
    if not os.path.lexists(path):
        return None
    with path.open("rb", buffering=0) as file:
        return file.read(LONGEST) or b""


def _read_all(folder: Path) -> Sequence[Label]:
    """Every label, as two reads one after the other show them.

    A database may be renamed, or a layer go from one label to another, while labels are read one
    by one: who reads once can miss a layer that always had a label.
    """
    before: Sequence[Label] | None = None
    for _ in range(ROUNDS):
        found = _read_once(folder)
        if found is not None and found == before:
            return found
        before = found
    raise OutOfTime(
        f"the labels of {folder} changed each of {ROUNDS} times that they were read",
        hint="nothing was deleted; run it again when fewer databases are written to",
    )


def _read_once(folder: Path) -> Sequence[Label] | None:
    """Every label; None when one went while they were read."""
    with translated("list", str(folder)):
        names = os.listdir(folder)  # noqa: PTH208 - many small files
        files = sorted(name for name in names if name.endswith(labels.SUFFIX))
    try:
        return [labels.parse_label(file, _read_locked(f"{folder}/{file}")) for file in files]
    except NotFound:
        return None


def _read_locked(file: str) -> bytes:
    """A label under a shared lock: it is rewritten in place under an exclusive one."""
    with translated("read", file):
        if stat.S_ISLNK(os.lstat(file).st_mode):
            raise UnsafeFolder(
                f"the label {file!r} is a link; links in a store are not followed",
                hint="put what it points at in its place, or remove it; nothing was deleted",
            )
        with open(os.open(file, READ), "rb", buffering=0) as found:  # noqa: PTH123
            _lock(file, found)
            return found.read(LONGEST) or b""


def _lock(file: str, label: FileIO) -> None:
    """Lock a label to read it; refused when another process does not let it go."""
    for _ in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(label, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        time.sleep(PAUSE)
    raise OutOfTime(
        f"the label {file!r} is locked by another process, and was for {TRIES * PAUSE:.0f} seconds",
        hint=f"find that process (`fuser {shlex.quote(file)}`), end it or wait for it, and run "
        "this again",
    )

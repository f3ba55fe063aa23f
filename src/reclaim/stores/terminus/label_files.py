"""Labels of a store, read with the locking protocol of its servers, and checks of the labels."""

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

HINT = "if its labels are on another host, run there: without labels live layers look dead"

ROUNDS = 20
"""Maximum number of reads of changing labels."""
TRIES, PAUSE = 600, 0.05
"""Number of attempts to lock a label, and the seconds in between: half a minute in all. A server
locks a label only while it writes a few bytes.
"""
LONGEST = 1024
"""Maximum number of bytes read from a label or from the version, which are shorter."""


def read_labels(folder: Path) -> Sequence[Label]:
    """Read every label, each under its lock. Refuse a store without its required labels."""
    path = folder / version.FILE
    with translated("read", str(path)):
        server = version.check_version(_version(path))
    all_labels = _read_all(folder)
    if not all_labels:
        raise Refused(f"{folder} is not a TerminusDB store: it has no *.label files", hint=HINT)
    if server and (missing := labels.missing_system(all_labels)):
        raise Refused(f"the server's own label {missing[0]} is missing or empty", hint=HINT)
    if all(label.layer is None for label in all_labels):
        raise Refused(f"no label of {folder} names a layer", hint=HINT)
    return all_labels


def _version(path: Path) -> bytes | None:
    # Also through a link: an unread version would count as missing.
    if not os.path.lexists(path):
        return None
    with path.open("rb", buffering=0) as file:
        return file.read(LONGEST) or b""


def _read_all(folder: Path) -> Sequence[Label]:
    """Read all labels until two consecutive reads agree.

    A database may be renamed, or a layer move between labels, during a read: a single read can miss
    a layer which always had a label.
    """
    before: Sequence[Label] | None = None
    for _ in range(ROUNDS):
        all_labels = _read_once(folder)
        if all_labels is not None and all_labels == before:
            return all_labels
        before = all_labels
    raise OutOfTime(
        f"the labels of {folder} changed during each of {ROUNDS} reads",
        hint="nothing was deleted; run it again when there are fewer writes",
    )


def _read_once(folder: Path) -> Sequence[Label] | None:
    """Read all labels; None if a label was deleted during the read."""
    with translated("list", str(folder)):
        names = os.listdir(folder)  # noqa: PTH208 - many small files
        files = sorted(name for name in names if name.endswith(labels.SUFFIX))
    try:
        return [labels.parse_label(file, _read_locked(f"{folder}/{file}")) for file in files]
    except NotFound:
        return None


def _read_locked(file: str) -> bytes:
    """Read a label under a shared lock: servers rewrite it in place under an exclusive lock."""
    with translated("read", file):
        if stat.S_ISLNK(os.lstat(file).st_mode):
            raise UnsafeFolder(
                f"the label {file!r} is a link; links in a store are not followed",
                hint="replace the link with its target, or remove it; nothing was deleted",
            )
        with open(os.open(file, READ), "rb", buffering=0) as label:  # noqa: PTH123
            _lock(file, label)
            return label.read(LONGEST) or b""


def _lock(file: str, label: FileIO) -> None:
    """Lock a label for reading; refuse if another process holds its lock too long."""
    for _ in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(label, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        time.sleep(PAUSE)
    raise OutOfTime(
        f"the label {file!r} has been locked by another process for {TRIES * PAUSE:.0f} seconds",
        hint=f"find that process (`fuser {shlex.quote(file)}`), end it or wait for it, and run "
        "this again",
    )

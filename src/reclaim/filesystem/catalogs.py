"""The open catalogs of this process: a catalog for each location, closed when it ends."""

from __future__ import annotations

import atexit
import os
import threading

from reclaim.catalog import Catalog

_opened: dict[str, Catalog] = {}
_lock = threading.Lock()
_forked = False


def open_catalog(url: str) -> Catalog:
    """The catalog of a database URL."""
    check_not_forked()
    with _lock:
        if url not in _opened:
            _opened[url] = Catalog.open(url)
        return _opened[url]


def close_catalogs() -> None:
    """Close all catalogs: give their leases back and close their partitions."""
    if _forked:
        return
    with _lock:
        while _opened:
            _opened.popitem()[1].close()


def check_not_forked() -> None:
    """Fail in a forked process, where a catalog would wait forever for threads left behind."""
    if _forked:
        raise RuntimeError(
            "this process was forked from a process with an open catalog; start workers with "
            "multiprocessing.get_context('spawn'), or use the filesystem in the workers only"
        )


def _note_fork() -> None:
    global _forked
    _forked = _forked or bool(_opened)


atexit.register(close_catalogs)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)

"""Orphans: quarantined objects of runs that can neither be undone nor purged.

A late copy, or objects missed by an older version: the run is undone or purged by then, or unknown.
An existing store keeps them, because they may be the last copies; ``doctor`` lists them. They are
deleted with a deleted store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.stores.base import Store

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Orphans:
    """Objects left in the quarantine of a run."""

    run: str
    state: str
    """Last phase of the run; ``UNKNOWN`` if it has no record."""
    objects: int
    bytes: int


def protected_folders(store: Store) -> Sequence[str]:
    """Folders of runs that can be undone or purged: their quarantine, and their records."""
    runs = [run for run in store.runs() if run.may_quarantine]
    return [
        folder
        for run in runs
        for folder in (store.format.quarantine_path(run.id), store.place(run.id)[1])
    ]


def find_orphans(store: Store) -> Sequence[Orphans]:
    """Orphans of a store, by run."""
    parent = store.format.quarantine_path("x").removesuffix("/x/")
    # Folders are listed before the records are read, so that every active run has a record, and
    # counted after.
    folders, _ = store.storage.folders(parent)
    runs = {run.id: run for run in store.runs()}
    orphans = []
    for folder in folders:
        name = folder.rpartition("/")[2]
        run = runs.get(name)
        if run is not None and run.may_quarantine:
            continue
        sizes = [stored.size for stored in store.storage.list(folder)]
        if sizes:
            state = UNKNOWN if run is None else run.phase
            orphans.append(Orphans(name, state, len(sizes), sum(sizes)))
    return orphans

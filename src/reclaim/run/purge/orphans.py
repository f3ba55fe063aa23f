"""Orphans: what lies in quarantine, and is of no run that could bring it back or purge it.

A copy that arrived too late, or what an older version missed: the run is undone or purged by then,
or nobody knows it. A store that lives keeps them, because they may be all that is left of
something; ``doctor`` names them. With a store that was deleted they go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.stores.base import Store

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Orphans:
    """Objects left in the quarantine of one run."""

    run: str
    state: str
    """How the run ended; ``UNKNOWN`` if there is no record of it."""
    objects: int
    bytes: int


def protected_folders(store: Store) -> Sequence[str]:
    """The folders of runs that can be undone or purged: their quarantine, and their records."""
    runs = [run for run in store.runs() if run.may_quarantine]
    return [
        folder
        for run in runs
        for folder in (store.format.quarantine_path(run.id), store.place(run.id)[1])
    ]


def find_orphans(store: Store) -> Sequence[Orphans]:
    """The orphans of a store, by run."""
    above = store.format.quarantine_path("x").removesuffix("/x/")
    # Listed before the records are read, so that every run at work has one; and counted after.
    folders, _ = store.storage.folders(above)
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

"""What runs have promised to give back, and may still lie, or lie again, at its old place.

A run that sets objects aside promises them for its window. While it is not finished, or has begun
to be undone, some of them are at their old places, where nothing refers to them. No other run
takes them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from reclaim.catalog.addresses import new_uid
from reclaim.errors import Refused
from reclaim.model import Run
from reclaim.run.ways import find_record
from reclaim.stores.base import Collectable, Observation
from reclaim.tasks.parts import Opener, Place, read_part, write_hashed


def keep_promises(
    seen: Observation,
    store: Collectable,
    *,
    besides: str,
    place: Place,
    opener: Opener,
) -> Observation:
    """An observation in which what other runs promised is needed as well.

    ``besides`` is the run that asks; ``place`` is where files with addresses are read from.
    """
    if store.deleted:
        # Nothing of it can be brought back.
        return seen
    files, count = [], 0
    for run in store.runs():
        if run.unfinished and run.id != besides:
            for rows in _promised(run, opener):
                stem = place.at(f"promised-{new_uid()}")
                files.append(write_hashed(opener(place.url), stem, rows))
                count += rows.num_rows
    return replace(seen, held=(*seen.held, *files), held_count=seen.held_count + count)


def protected_folders(store: Collectable) -> Sequence[str]:
    """The folders of runs that can be undone: their journals tell what to bring back."""
    return [store.place(run.id)[1] for run in store.runs() if run.quarantine and not store.deleted]


def _promised(run: Run, opener: Opener) -> Iterator[pa.Table]:
    """The addresses that a run promised, some hundred thousand at a time."""
    record = find_record(run, opener)
    if record is None:
        raise Refused(
            f"run {run.id} did not finish setting objects aside, and its plan is not at "
            f"{run.place} any more: what it promised to keep is not known",
            hint=f"undo it (`reclaim undo {run.id}`), or end it with `reclaim purge`",
        )
    for part in record.journal.intended():
        yield read_part(opener(record.place.url), part, ["address"])

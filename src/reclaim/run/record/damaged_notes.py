"""Notes of tasks that are damaged: what a run took is recalled without them, if all is known.

Nobody vouches for notes, and most tell only what a journal tells as well. So one that is not as it
was written, or that no task can have written, holds up an undo or a purge only where something is
known by no other file. That is so of each note of an undo: by which version it brought an object
back, no journal tells, and what it was copied from may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.requests import RecallRequest
from reclaim.engine.tasks import recall
from reclaim.engine.tasks.notes import RETURNED, folder_of
from reclaim.engine.tasks.parts import Opener, Part, read_part
from reclaim.errors import Corrupt, PlanRefused, Refused
from reclaim.storage import Storage


def recall_without(
    engine: Engine, request: RecallRequest, opener: Opener, run_id: str
) -> Sequence[Part] | None:
    """The parts recalled without damaged notes; None if no note is damaged, so a list is."""
    storage = opener(request.source.url)
    damaged = [note for note in request.notes if not _is_whole(storage, note)]
    if not damaged:
        return None
    for note in damaged:
        if folder_of(note) == RETURNED:
            raise Refused(
                f"an undo of run {run_id} has brought objects back as copies that only its note "
                f"tells of, and the note is damaged: {note.address}",
                hint="restore it from a backup; or remove it: what no other note tells of is then "
                "left where it is, and an undo names it",
            )
    rest = [note for note in request.notes if note not in damaged]
    recalled = pipelines.recall(engine, replace(request, notes=rest))
    unknown = sum(_unknown(opener(request.place.url), part) for part in recalled)
    if unknown:
        named = damaged[0].address
        raise Refused(
            f"{unknown} objects of run {run_id} are in no journal, and a note that may tell of "
            f"them is damaged: {named}",
            hint="restore it from a backup; or remove it: what it alone tells is then left under "
            "its delete marker, as a noncurrent version of the bucket",
        )
    return recalled


def _is_whole(storage: Storage, note: Part) -> bool:
    try:
        recall.noted(read_part(storage, note))
    except (PlanRefused, Corrupt):
        return False
    return True


def _unknown(storage: Storage, part: Part) -> int:
    """How many objects have no identity."""
    identities = read_part(storage, part, ["identity"]).column("identity")
    known = pc.fill_null(pc.not_equal(identities, ""), fill_value=False)
    return len(identities) - (pc.sum(known).as_py() or 0)

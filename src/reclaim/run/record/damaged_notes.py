"""Recall quarantined objects without damaged task notes, if nothing is lost by it.

Notes have no hash in the run record, and most repeat facts of a journal. So a damaged note blocks
an undo or a purge only if it holds facts recorded nowhere else. This applies to every note of an
undo: no journal records the version of a restored object, and the source of the copy may be gone.
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
    """Recall parts without damaged notes. Return None if no note is damaged, so that a list is."""
    storage = opener(request.source.url)
    damaged = [note for note in request.notes if not _is_whole(storage, note)]
    if not damaged:
        return None
    for note in damaged:
        if folder_of(note) == RETURNED:
            raise Refused(
                f"an undo of run {run_id} has restored objects as copies recorded only in its "
                f"note, and the note is damaged: {note.address}",
                hint="restore the note from a backup; or remove it: objects recorded in no other "
                "note then stay where they are, and an undo lists them",
            )
    intact = [note for note in request.notes if note not in damaged]
    recalled = pipelines.recall(engine, replace(request, notes=intact))
    unknown = sum(_unknown(opener(request.place.url), part) for part in recalled)
    if unknown:
        named = damaged[0].address
        raise Refused(
            f"{unknown} objects of run {run_id} are in no journal, and a note that may list them "
            f"is damaged: {named}",
            hint="restore the note from a backup; or remove it: objects listed only there then "
            "stay under their delete markers, as noncurrent versions of the bucket",
        )
    return recalled


def _is_whole(storage: Storage, note: Part) -> bool:
    try:
        recall.noted(read_part(storage, note))
    except (PlanRefused, Corrupt):
        return False
    return True


def _unknown(storage: Storage, part: Part) -> int:
    """Number of objects without an identity."""
    identities = read_part(storage, part, ["identity"]).column("identity")
    known = pc.fill_null(pc.not_equal(identities, ""), fill_value=False)
    return len(identities) - (pc.sum(known).as_py() or 0)

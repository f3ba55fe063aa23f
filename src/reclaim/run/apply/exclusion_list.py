"""Lists of excluded objects, which later runs read."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS
from reclaim.engine.requests import ConfirmRequest
from reclaim.engine.tasks.parts import Part
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.exclusion import FOLDER, write_files
from reclaim.run_record import NOTHING_LEFT_OUT, LeftOut


def list_left_out(
    context: ApplyContext, *, done: Sequence[Part] = (), closed: frozenset[str] = frozenset()
) -> LeftOut:
    """Write the list of excluded objects, without those taken by an earlier apply. ``done`` is the
    journal of earlier applies, ``closed`` are partitions without writers."""
    if context.exclusion is None:
        return NOTHING_LEFT_OUT
    parts, place = context.exclusion.excluded, context.own.below(FOLDER)
    if done:
        parts = pipelines.confirm(
            context.engine,
            ConfirmRequest(
                context.store.format,
                parts,
                NO_CONTAINERS,
                (),
                closed,
                done,
                place.below("left"),
                context.work,
            ),
        ).parts
    write_files(context.storage, context.own, parts)
    counted = pipelines.verify(context.engine, parts, place).values()
    objects, size = (sum(counts[at] for counts in counted) for at in range(2))
    return LeftOut(tuple(context.globs), objects, size, str(place))

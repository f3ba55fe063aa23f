"""Confirming: keep every candidate reached by snapshots or edges unknown to the plan."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS
from reclaim.engine.requests import ConfirmRequest, ExpandRequest
from reclaim.engine.tasks.parts import Part
from reclaim.errors import IncompleteRead
from reclaim.run.apply.context import ApplyContext
from reclaim.run.plan.dead_snapshots import find_dead, find_dead_ids, live_containers
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.roots.protection import hold_protected
from reclaim.run.roots.roots import hold_roots
from reclaim.stores.observation import Observation


def confirm(
    context: ApplyContext,
    decided: PlannedSnapshots,
    seen: Observation,
    now: Decided,
    *,
    done: Sequence[Part],
) -> tuple[Observation, Sequence[Part]]:
    """Return the candidates that are still unreferenced, and the observation with all roots.

    ``decided`` has the decisions of the plan, ``seen`` and ``now`` those of the read that showed
    all marks. ``done`` is the journal of earlier applies.
    """
    seen = _hold_needed(context, decided, seen, now)
    return seen, _drop_reached(context, decided, seen, now, done)


def _hold_needed(
    context: ApplyContext, decided: PlannedSnapshots, seen: Observation, now: Decided
) -> Observation:
    """Return the observation with the objects promised by other runs, and objects whose paths are
    protected in snapshots unknown to the plan."""
    seen = hold_roots(seen, context.roots.after_marking(_known_containers(context)))
    known = decided.live | decided.dead.keys() | now.live
    return hold_protected(
        seen,
        context.store,
        context.engine,
        find_dead_ids(seen, now) - known,
        own=context.work.below("protected"),
        opener=context.opener,
    )


def _drop_reached(
    context: ApplyContext,
    decided: PlannedSnapshots,
    seen: Observation,
    now: Decided,
    done: Sequence[Part],
) -> Sequence[Part]:
    """Return the candidates that are still unreferenced. New references are recognized by id, never
    by time."""
    judged = find_dead(seen, now)
    # A snapshot readable when planned may be in the middle of a rewrite.
    torn = {
        snapshot
        for snapshot in seen.unreadable
        if decided.dead.get(snapshot) not in (seen.why.get(snapshot), judged.get(snapshot))
    }
    kept = now.live - decided.live | torn
    fresh = live_containers(seen, kept)
    revived = NO_CONTAINERS
    if fresh.num_rows:
        place, known = context.own.below("containers"), _known_containers(context)
        request = ExpandRequest(context.store.format, fresh, place, known=known)
        revived = pipelines.expand(context.engine, request)
    confirmed = pipelines.confirm(
        context.engine,
        ConfirmRequest(
            context.store.format,
            context.basis.candidates,
            revived,
            seen.held,
            seen.closed,
            done,
            context.own.below("objects"),
            context.work,
        ),
    )
    complete = (
        ("containers of snapshots", fresh.num_rows, revived.of_snapshots),
        ("containers", revived.containers, confirmed.read.containers),
        ("entries", revived.entries, confirmed.read.entries),
        ("staged or pending addresses", seen.held_count, confirmed.read.held),
    )
    for unit, expected, read in complete:
        if expected != read:
            raise IncompleteRead(
                f"to confirm, {expected} {unit} were expected and {read} were read",
                hint="nothing was deleted; apply it again",
            )
    return confirmed.parts


def _known_containers(context: ApplyContext) -> list[Part]:
    """Containers read by the plan."""
    return [file.part for file in context.basis.document.containers]

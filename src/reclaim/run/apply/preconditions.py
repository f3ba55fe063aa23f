"""Checks of a plan before an apply: it is for this store, unfinished, and applied as it was
begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote

from reclaim.engine.tasks.parts import Place
from reclaim.errors import PlanRefused, TooMuch
from reclaim.model import instant_text
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.sweep.removal import OPTIONS, Removal
from reclaim.run_record import Action, Phase, RunRecord
from reclaim.safety import SAFETY
from reclaim.stores.base import Store


def check_plan(planned: PlanDocument, store: Store) -> None:
    if (planned.store.kind, planned.store.uid) != (store.kind, store.uid):
        raise PlanRefused(
            f"the plan is for {planned.store.name} ({planned.store.uid}), "
            f"not for {store.name} ({store.uid})",
            hint="apply it to the store that it was made for",
        )
    if planned.store.storage != store.storage.url:
        raise PlanRefused(
            f"the plan is for a store at {planned.store.storage}, which is at {store.storage.url} "
            "now",
            hint="make a new plan",
        )
    ahead = planned.started_at - store.clock.now()
    if ahead > SAFETY.clock_skew:
        # The plan may be stored elsewhere, made with a clock never compared with the storage's.
        # Such a plan takes young objects for old.
        raise PlanRefused(
            f"the plan was made at {instant_text(planned.started_at)}, which is in the future",
            hint="check the clock of the host that made the plan, and make a new plan",
        )
    if planned.fraction > planned.allowed_fraction:
        raise TooMuch("the plan exceeds its own limit on deletions", hint="make a new plan")


def check_begun(
    run: RunRecord | None,
    removal: Removal,
    place: Place,
    planned: PlanDocument,
    globs: Sequence[str],
    *,
    trusted: bool,
) -> None:
    """Refuse to continue a finished run, a run begun with other options, or a run of another
    plan."""
    if run is None:
        return
    run.check(Action.APPLY)
    if run.kind != planned.run_kind:
        raise PlanRefused(
            f"the plan has the id of run {run.id}, which has another kind ({run.kind})",
            hint="the plan was modified; make a new plan",
        )
    _check_same_plan(run, place, planned, trusted=trusted)
    begun_with = run.quarantine.removal if run.quarantine else None
    takes_objects = planned.history_only is None
    if takes_objects and run.phase is not Phase.STOPPED and begun_with != removal.name:
        option = OPTIONS[begun_with]
        raise PlanRefused(
            f"this plan was first applied with {option}",
            hint=f"repeat it with {option}, or make a new plan",
        )
    left_out = run.left_out.globs
    if not set(left_out) <= set(globs):
        run.check(Action.EXCLUDE_LESS, options=exclude_options(left_out))


def exclude_options(globs: Iterable[str]) -> str:
    """Command line options for exclusion globs."""
    return " ".join(f"--exclude {quote(glob)}" for glob in globs)


def _check_same_plan(run: RunRecord, place: Place, planned: PlanDocument, *, trusted: bool) -> None:
    """Refuse a plan with the run id of another plan.

    Whoever vouches for a plan vouches for its id. The id of any other plan must match the run
    record.
    """
    if run.place != str(place):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, whose plan is at {run.place}",
            hint=f"make a new plan, or apply the plan of the run: reclaim apply {run.place}",
        )
    if run.plan != planned.digest and not (trusted and not run.plan):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, but is not the plan of that run",
            hint="make a new plan",
        )

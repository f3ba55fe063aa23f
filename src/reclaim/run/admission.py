"""Which plans may be applied: one for this store, that is not over, and as it was begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote

from reclaim.engine.tasks.parts import Place
from reclaim.errors import PlanRefused, TooMuch
from reclaim.model import PLAN_DIGEST, Run, RunState, instant_text
from reclaim.run.exclusion import EXCLUDE
from reclaim.run.plan_document import PlanDocument
from reclaim.run.removal import OPTIONS, Removal
from reclaim.safety import SAFETY
from reclaim.stores.base import Store

COLLECT = "collect"
"""The kind of run that an apply is."""


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
            hint="plan it again",
        )
    ahead = planned.started_at - store.clock.now()
    if ahead > SAFETY.clock_skew:
        # It may lie elsewhere, and so have been made by a clock that was never compared with the
        # storage's: then it took young objects for old ones.
        raise PlanRefused(
            f"the plan is of {instant_text(planned.started_at)}, which is yet to come",
            hint="see whether the clock is right where it was made, and plan it again",
        )
    if planned.fraction > planned.allowed_fraction:
        raise TooMuch("the plan takes more than it was allowed to", hint="plan it again")


def check_begun(
    run: Run | None,
    removal: Removal,
    place: Place,
    planned: PlanDocument,
    globs: Sequence[str],
    *,
    trusted: bool,
) -> None:
    """Refuse to go on with a run that has ended, in another way than it was begun, or that was
    made from another plan."""
    if run is None:
        return
    if run.kind != COLLECT:
        raise PlanRefused(
            f"the plan has the id of run {run.id}, which is of another kind ({run.kind})",
            hint="the plan was changed; plan it again",
        )
    _check_same_plan(run, place, planned, trusted=trusted)
    if run.state in (RunState.UNDONE, RunState.PURGED):
        raise PlanRefused(
            f"the plan was applied, and its run was {run.state} since", hint="plan it again"
        )
    if run.purging:
        raise PlanRefused(
            f"a purge has begun to delete what run {run.id} moved to quarantine",
            hint=f"finish that with `reclaim purge STORE --run {run.id}`, and plan it again",
        )
    if run.undoing or run.given_up:
        raise PlanRefused(
            f"run {run.id} has begun to be undone",
            hint=f"finish that with `reclaim undo {run.id}`, and plan it again",
        )
    begun_with = run.quarantine.removal if run.quarantine else None
    if run.state != RunState.STOPPED and begun_with != removal.name:
        option = OPTIONS[begun_with]
        raise PlanRefused(
            f"this plan was first applied with {option}",
            hint=f"repeat it with {option}, or make a new plan",
        )
    left_out = run.summary.get(EXCLUDE) or []
    if run.state not in (RunState.STOPPED, RunState.DONE) and not set(left_out) <= set(globs):
        options = exclude_options(left_out)
        raise PlanRefused(
            f"this plan was begun with {options}, and is not finished",
            hint=f"finish it with {options}; what was left out would go otherwise",
        )


def exclude_options(globs: Iterable[str]) -> str:
    """The options of a command that leave out what some globs match."""
    return " ".join(f"--exclude {quote(glob)}" for glob in globs)


def _check_same_plan(run: Run, place: Place, planned: PlanDocument, *, trusted: bool) -> None:
    """Refuse a plan that carries the id of a run which was made from another one.

    Who vouches for a plan vouches for its id. Of any other the record of the run must know it.
    """
    if run.place != str(place):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, whose plan is at {run.place}",
            hint=f"plan it again, or apply that one: reclaim apply {run.place}",
        )
    noted = run.summary.get(PLAN_DIGEST)
    if noted != planned.digest and not (trusted and noted is None):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, and is not the plan that the run "
            "was made from",
            hint="plan it again",
        )

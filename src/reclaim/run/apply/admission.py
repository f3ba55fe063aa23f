"""Which plans may be applied: one for this store, that is not over, and as it was begun."""

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
    run: RunRecord | None,
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
    run.check(Action.APPLY)
    if run.kind != planned.run_kind:
        raise PlanRefused(
            f"the plan has the id of run {run.id}, which is of another kind ({run.kind})",
            hint="the plan was changed; plan it again",
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
    """The options of a command that leave out what some globs match."""
    return " ".join(f"--exclude {quote(glob)}" for glob in globs)


def _check_same_plan(run: RunRecord, place: Place, planned: PlanDocument, *, trusted: bool) -> None:
    """Refuse a plan that carries the id of a run which was made from another one.

    Who vouches for a plan vouches for its id. Of any other the record of the run must know it.
    """
    if run.place != str(place):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, whose plan is at {run.place}",
            hint=f"plan it again, or apply that one: reclaim apply {run.place}",
        )
    if run.plan != planned.digest and not (trusted and not run.plan):
        raise PlanRefused(
            f"the plan at {place} has the id of run {run.id}, and is not the plan that the run "
            "was made from",
            hint="plan it again",
        )

"""Trust in a plan: whether it is the plan made and reviewed, and how any other plan is treated.

Whoever can write to the folder of a plan can replace it, with all hashes correct. So a plan is
trusted only if a party other than the folder vouches for it: the store, which recorded the digest
of the plan, or a person who gives the digest. Any other plan is a proposal: a new plan is made from
the storage and the store alone, and only objects in both plans are deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Part, Place
from reclaim.errors import InvalidInput, PlanRefused, TooMuch
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.plan_document import OF_RUNS, PlanDocument
from reclaim.run.plan.planning import MAX_FRACTION, PlanOptions, find_candidates
from reclaim.run.record.stages import Watcher
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins

DIGEST_PREFIX = 16
"""Length of a digest prefix that identifies a plan."""
LONGEST_MARGIN = timedelta(days=3650)
"""Longest margin accepted from an untrusted plan."""

COMPARED = (
    "the plan was not recorded by this store: every object was compared with all live data again"
)


@dataclass(frozen=True, slots=True)
class Basis:
    """Basis of an apply: decisions about snapshots, containers, and the candidates."""

    document: PlanDocument
    candidates: Sequence[Part]
    compared: bool = False
    """Whether a new plan was made because nobody vouches for the given plan."""

    @property
    def margin(self) -> timedelta:
        return self.document.started_at - self.document.cutoff

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(group.kind for group in self.document.going)


def check_digest(digest: str) -> str:
    """Check and normalize a digest given by a person, or its prefix."""
    normalized = digest.strip().lower()
    if not re.fullmatch(f"[0-9a-f]{{{DIGEST_PREFIX},64}}", normalized):
        raise InvalidInput(
            f"{digest!r} is not the digest of a plan",
            hint=f"give the SHA-256 printed by `reclaim plan`, or its first {DIGEST_PREFIX} digits",
        )
    return normalized


def is_trusted(store: Store, planned: PlanDocument, digest: str | None) -> bool:
    """Whether the store or a person vouches for a plan. Refuse a plan with another digest."""
    if digest is not None and not planned.digest.startswith(check_digest(digest)):
        raise PlanRefused(
            f"the plan has the digest {planned.digest}, not {digest}",
            hint="this is not the reviewed plan; inspect it with `reclaim show`",
        )
    recorded = store.recorded_plan(planned.run)
    if recorded is not None and recorded != planned.digest:
        raise PlanRefused(
            f"the plan has the digest {planned.digest}; {store.name} recorded {recorded} when the "
            "plan was made",
            hint="the plan was replaced; make a new plan",
        )
    return digest is not None or recorded is not None or _is_recorded(store, planned)


def _is_recorded(store: Store, planned: PlanDocument) -> bool:
    """Whether the run of a plan was made from it while somebody vouched for it.

    A store drops the digests of plans after a while, but keeps its runs. The record of an untrusted
    plan vouches for nothing: anybody may have written the plan.
    """
    run = store.find_run(planned.run)
    return run is not None and run.vouched and run.plan == planned.digest


def find_basis(
    store: Store,
    engine: Engine,
    place: Place,
    planned: PlanDocument,
    *,
    own: Place,
    digest: str | None,
    watcher: Watcher,
    opener: Opener,
) -> Basis:
    """Return the basis for applying a plan. ``own`` is the folder of the apply."""
    files = [file.part for file in planned.files]
    if is_trusted(store, planned, digest):
        return Basis(planned, files)
    _check_history(planned, opener, place)
    # Times, ages, kinds and fractions of the plan are ignored, except a longer margin.
    default_margin = Margins().objects
    margin = min(max(default_margin, planned.started_at - planned.cutoff), LONGEST_MARGIN)
    options = PlanOptions(
        margins=Margins(objects=margin), place=own.below("again"), allowed_fraction=1.0
    )
    # The run's own promises do not protect objects from the run.
    new_plan = find_candidates(
        store, engine, options, besides=planned.run, watcher=watcher, opener=opener
    ).document
    in_both_plans = pipelines.intersect(
        engine, [file.part for file in new_plan.files], files, own.below("both")
    )
    _check_fraction(store, new_plan, in_both_plans)
    return Basis(new_plan, in_both_plans, compared=True)


def _check_history(planned: PlanDocument, opener: Opener, place: Place) -> None:
    """Refuse history edits: their rules come from the untrusted plan."""
    decided = plan_snapshots.read(opener(place.url), planned.snapshots.part)
    edits = decided.reparent or decided.delete_refs or planned.deleted_refs
    if edits or planned.history_only is not None:
        raise PlanRefused(
            "the plan edits history, but the store has no record of the plan",
            hint="give the digest that `reclaim plan` printed (--digest SHA256), or make a new "
            "plan",
        )


def _check_fraction(store: Store, new_plan: PlanDocument, in_both_plans: Sequence[Part]) -> None:
    of_runs = sum(
        group.objects for group in (*new_plan.going, *new_plan.staying) if group.kind in OF_RUNS
    )
    whole = new_plan.objects - of_runs
    going = sum(part.rows for part in in_both_plans if part.group not in OF_RUNS)
    if going > MAX_FRACTION * whole and not store.deleted:
        raise TooMuch(
            f"{going} of {whole} objects would be deleted, more than {MAX_FRACTION:.0%}, by a plan "
            "unknown to the store",
            hint="if this is intended, give the digest printed by `reclaim plan` (--digest SHA256)",
            candidates=going,
            objects=whole,
        )

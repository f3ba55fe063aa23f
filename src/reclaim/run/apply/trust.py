"""Whether a plan is the one that was made and reviewed, and what is done with any other.

Who can write the folder of a plan can write any plan there, with all its hashes right. So a plan
is believed only when somebody who is not that folder vouches for it: the store, which noted the
digest when the plan was made, or a person who gives the digest. Any other is a proposal: a new
plan is made, from the storage and the store alone, and what stands in both is taken.
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
from reclaim.run.plan.planning import MOST, PlanOptions, find_candidates
from reclaim.run.record.stages import Watcher
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins

PREFIX = 16
"""How many digits of a digest tell a plan from all others."""
LONGEST = timedelta(days=3650)
"""The longest margin that is taken from a plan that nobody vouches for."""

COMPARED = (
    "the plan was not recorded by this store: every object was compared with all live data again"
)


@dataclass(frozen=True, slots=True)
class Basis:
    """The basis of an apply: decisions about snapshots, containers, and the candidates."""

    document: PlanDocument
    candidates: Sequence[Part]
    compared: bool = False
    """Whether a new plan was made, because nobody vouches for the one to be applied."""

    @property
    def margin(self) -> timedelta:
        return self.document.started_at - self.document.cutoff

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(group.kind for group in self.document.going)


def check_digest(digest: str) -> str:
    """A digest as a person gives it, or its beginning."""
    found = digest.strip().lower()
    if not re.fullmatch(f"[0-9a-f]{{{PREFIX},64}}", found):
        raise InvalidInput(
            f"{digest!r} is not the digest of a plan",
            hint=f"give the SHA-256 that `reclaim plan` printed, or its first {PREFIX} digits",
        )
    return found


def is_trusted(store: Store, planned: PlanDocument, digest: str | None) -> bool:
    """Whether the store or a person vouches for a plan; one that is another than they say is
    refused."""
    if digest is not None and not planned.digest.startswith(check_digest(digest)):
        raise PlanRefused(
            f"the plan has the digest {planned.digest}, not {digest}",
            hint="this is not the plan that was reviewed; look at it with `reclaim show`",
        )
    noted = store.recorded_plan(planned.run)
    if noted is not None and noted != planned.digest:
        raise PlanRefused(
            f"the plan has the digest {planned.digest}; the one that {store.name} recorded when "
            f"it was made has {noted}",
            hint="somebody wrote another plan in its place; plan it again",
        )
    return digest is not None or noted is not None or _is_recorded(store, planned)


def _is_recorded(store: Store, planned: PlanDocument) -> bool:
    """Whether the run of a plan was made from it when somebody vouched for it.

    A store forgets the digests of plans after a while, but not its runs. The record of a plan that
    was only compared vouches for nothing: anybody may have written that.
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
    """The basis of an apply of a plan; ``own`` is the folder of the apply."""
    files = [file.part for file in planned.files]
    if is_trusted(store, planned, digest):
        return Basis(planned, files)
    _check_history(planned, opener, place)
    # None of the plan's own times, ages, kinds or fractions is believed, unless it is careful.
    least = Margins().objects
    margin = min(max(least, planned.started_at - planned.cutoff), LONGEST)
    options = PlanOptions(
        margins=Margins(objects=margin), place=own.below("again"), allowed_fraction=1.0
    )
    # What the run has promised itself, it goes on with.
    again = find_candidates(
        store, engine, options, besides=planned.run, watcher=watcher, opener=opener
    ).document
    both = pipelines.intersect(
        engine, [file.part for file in again.files], files, own.below("both")
    )
    _check_fraction(store, again, both)
    return Basis(again, both, compared=True)


def _check_history(planned: PlanDocument, opener: Opener, place: Place) -> None:
    """Refuse edits of the history: the rules that they follow from are the plan's own."""
    decided = plan_snapshots.read(opener(place.url), planned.snapshots.part)
    edits = decided.reparent or decided.delete_refs or planned.deleted_refs
    if edits or planned.history_only is not None:
        raise PlanRefused(
            "the plan changes history, and the store has no record of it",
            hint="give the digest that `reclaim plan` printed (--digest SHA256), or plan it again",
        )


def _check_fraction(store: Store, again: PlanDocument, both: Sequence[Part]) -> None:
    of_runs = sum(one.objects for one in (*again.going, *again.staying) if one.kind in OF_RUNS)
    whole = again.objects - of_runs
    going = sum(part.rows for part in both if part.group not in OF_RUNS)
    if going > MOST * whole and not store.deleted:
        raise TooMuch(
            f"{going} of {whole} objects would go, more than {MOST:.0%}, by a plan that the store "
            "has no record of",
            hint="if that is right, give the digest that `reclaim plan` printed (--digest SHA256)",
            candidates=going,
            objects=whole,
        )

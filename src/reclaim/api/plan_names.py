"""Names of plans: the id of the run, the start of the id, ``latest``, or a folder or URL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from reclaim.engine.tasks.parts import Place, open_storage
from reclaim.errors import InvalidInput, NotFound, PlanRefused
from reclaim.ids import age_by_id, short
from reclaim.run.plan.plan_file import FILE
from reclaim.run.plan.plan_location import LocatedPlan, find_plan, find_plan_anywhere
from reclaim.stores.base import Store

LATEST = "latest"
SHORTEST = 4
"""How many digits of an id are enough, if no other run has them."""
WHERE = (
    "a plan of another store than the catalog's needs --store SCHEME:LOCATION, and a plan that was "
    "written with --out is named by its folder or URL"
)

_WHOLE = re.compile(r"[0-9a-f]{32}")
_START = re.compile(r"[0-9a-f]+")
_CLOCKS_DIFFER = timedelta(days=1)
_ANY = "0" * 32
"""An id, to ask a store for the folder of all plans."""


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """The default place of a plan in a store."""

    store: Store
    run: str

    @property
    def place(self) -> Place:
        return Place(*self.store.place(self.run))

    def exists(self) -> bool:
        place = self.place
        try:
            open_storage(place.url).head(place.at(FILE))
        except NotFound:
            return False
        return True

    def find(self) -> LocatedPlan:
        """The plan, to apply it: it has to be where it was written."""
        return self._checked(LocatedPlan.at(*find_plan(str(self.place))))

    def find_anywhere(self) -> LocatedPlan:
        """The plan, to look at it: the whole store may have been copied."""
        return self._checked(find_plan_anywhere(str(self.place)))

    def _checked(self, located: LocatedPlan) -> LocatedPlan:
        """Refuse the plan of another run or store: anybody may have put it there."""
        document, store = located.document, self.store
        named = document.store
        if (document.run, named.kind, named.uid) != (self.run, store.kind, store.uid):
            raise PlanRefused(
                f"the plan at {self.place} is the plan of run {document.run} for {named.name} "
                f"({named.uid}), not of run {self.run} for {store.name}",
                hint="somebody wrote another plan in its place; plan it again",
            )
        return located


def is_location(name: str) -> bool:
    """Whether a name means a folder or a URL, and not a run."""
    return "/" in name or ":" in name or Path(name).exists()


def is_by_default(place: Place, run: str) -> bool:
    """Whether a plan is where its store keeps plans.

    Nobody knows the id of a run before its plan is made, so no other place ends with the id.
    """
    return str(place).endswith(f"/{run}")


def check_name(name: str) -> None:
    """Refuse a name that no plan can have."""
    if name != LATEST and not (_START.fullmatch(name) and SHORTEST <= len(name) <= len(_ANY)):
        raise NotFound(
            f"there is no plan {name!r}",
            hint=f"give the run id of the plan, {SHORTEST} or more of its first digits, "
            f"`{LATEST}`, or a folder or URL",
        )


def find_named(stores: Sequence[Store], name: str) -> NamedPlan:
    """The only plan of some stores that a name fits. Each store is listed once."""
    check_name(name)
    if _WHOLE.fullmatch(name):
        fitting = [plan for store in stores if (plan := NamedPlan(store, name)).exists()]
    elif name == LATEST:
        fitting = [plan for plan in [_latest(stores)] if plan is not None]
    else:
        fitting = [plan for plan in _all(stores, name) if plan.exists()]
    if not fitting:
        said = "there is no plan yet" if name == LATEST else f"there is no plan {name}"
        raise NotFound(said, hint=f"make a plan with `reclaim plan`; {WHERE}")
    if len(fitting) > 1:
        listed = ", ".join(f"{short(plan.run)} (for {plan.store.name})" for plan in fitting)
        raise InvalidInput(
            f"several plans start with {name}: {listed}",
            hint="give more of the id",
            plans=[plan.run for plan in fitting],
        )
    return fitting[0]


def plan_ids(stores: Sequence[Store], start: str = "") -> list[str]:
    """The ids of plans that start so, and of runs that left files beside them; newest first."""
    return [plan.run for plan in _by_time(_all(stores, start))]


def _latest(stores: Sequence[Store]) -> NamedPlan | None:
    return next((plan for plan in _by_time(_all(stores, "")) if plan.exists()), None)


def _by_time(plans: Iterator[NamedPlan]) -> list[NamedPlan]:
    """Plans by the time in their ids, the newest first; those without a time last."""

    def age(plan: NamedPlan) -> timedelta:
        since = age_by_id(plan.run, plan.store.clock.now())
        # An id that was made without a time looks like a time in the future.
        return timedelta.max if since is None or since < -_CLOCKS_DIFFER else since

    return sorted(plans, key=age)


def _all(stores: Sequence[Store], start: str) -> Iterator[NamedPlan]:
    for store in stores:
        url, folder = store.place(_ANY)
        before, separator, _ = folder.rpartition(_ANY)
        if not separator:
            continue
        folders, _ = open_storage(url).folders(before.rstrip("/"))
        for subfolder in folders:
            run = subfolder.rstrip("/").rsplit("/", 1)[-1]
            if _WHOLE.fullmatch(run) and run.startswith(start):
                yield NamedPlan(store, run)

"""Options of plans and applies, checked and turned into requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict

from reclaim.clock import SystemClock
from reclaim.engine.answers import Objects
from reclaim.engine.tasks.inventory import find_inventory
from reclaim.engine.tasks.parts import Place
from reclaim.errors import AlreadyExists, InvalidInput
from reclaim.model import instant_text
from reclaim.policy import Duration, Policy
from reclaim.run.apply.limits import Limits
from reclaim.run.plan.planning import MAX_FRACTION, PlanOptions
from reclaim.run.plan.stored_policy import choose_policy, find_stored
from reclaim.run.requests import RunKind, RunRequest
from reclaim.run.sweep.removal import DELETE, KEEP, DeleteMarkers, MoveToQuarantine, Removal
from reclaim.storage import ObjectStorage
from reclaim.stores.abilities import KeepsBackups, NeedsOtherSnapshots
from reclaim.stores.base import Store
from reclaim.stores.observation import Margins
from reclaim.urls import normalize, split

Age = str | timedelta
"""A length of time: ``"24h"``, ``"7d"``, or a ``timedelta``."""
DAY = timedelta(hours=24)
_ZERO = re.compile("0(y|mo|w|d|h|min|s)?")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgtp])(i?)b?|b)?", re.IGNORECASE)
_POWERS = {unit: power for power, unit in enumerate("kmgtp", start=1)}


class PlanArguments(TypedDict, total=False):
    """The options of a plan."""

    kind: Literal["collect", "history-only", "uncommitted", "lifecycle"]
    """The kind of run. The default, ``collect``, takes everything unreferenced."""
    refs: Sequence[str]
    """Of a history-only run: edit only what these branches and tags reach."""
    branch: str | None
    """Of an uncommitted run: only uploads to this branch."""
    full: bool
    """Of an uncommitted or a lifecycle run: ignore checkpoints and read everything again."""
    min_age: Age
    """Never delete objects modified within this time; 24 hours by default."""
    inventory: str | None
    """A Parquet inventory (key, size, last_modified) to read instead of listing the storage."""
    out: str | None
    """An empty folder or URL for the plan; by default in the store."""
    unsafe_allow_fraction: float | None
    """Allow a plan to delete up to this fraction of all objects; 0.9 by default."""
    unsafe_allow_missing_layers: bool
    """Continue although live layers or snapshots refer to missing ones."""
    old_backups: bool
    """Also collect old copies of replaced files (Icechunk)."""
    delete_expired_tags: bool
    delete_expired_branches: bool


class ApplyArguments(TypedDict, total=False):
    """The options of an apply."""

    quarantine: bool | Age | Removal | None
    """Move objects to quarantine for this time (7 days for ``True``), or delete them (``False``).
    By default objects of a catalog are deleted, and those of other stores are moved."""
    markers: bool
    """With a quarantine, in a bucket with versioning: write delete markers and no copies."""
    max_objects: int | None
    """Refuse a plan with more objects."""
    max_bytes: int | str | None
    """Refuse a plan with more bytes: a number, ``"500MB"`` or ``"2GiB"``."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Request for a plan, checked as far as possible without a store."""

    request: RunRequest
    policy: Policy | None
    min_age: timedelta
    arguments: PlanArguments

    @classmethod
    def of(cls, policy: Policy | None, arguments: PlanArguments) -> Asked:
        kind = _kind(arguments.get("kind", "collect"))
        request = RunRequest(
            kind,
            tuple(arguments.get("refs", ())),
            arguments.get("branch"),
            arguments.get("full", False),
        )
        _check_kind(request, policy)
        if policy is not None:
            check_past(policy)
        return cls(
            request, policy, to_timedelta(arguments.get("min_age", DAY), "min_age"), arguments
        )

    def options(self, store: Store) -> PlanOptions:
        """Return the options of the plan for a store."""
        given = self.arguments
        allow_missing(store, asked=given.get("unsafe_allow_missing_layers", False))
        _collect_backups(store, asked=given.get("old_backups", False))
        policy = self.policy if self.request.kind in WITH_RULES else Policy()
        chosen = choose_policy(policy, find_stored(store) if policy is None else None)
        fraction, out = given.get("unsafe_allow_fraction"), given.get("out")
        inventory = given.get("inventory")
        return PlanOptions(
            policy=chosen.policy,
            policy_source=chosen.source,
            margins=Margins(objects=self.min_age),
            place=None if out is None else _empty_place(out, store),
            inventory=None if inventory is None else _inventory(inventory, store),
            inventory_name=inventory,
            allowed_fraction=MAX_FRACTION if fraction is None else fraction,
            delete_expired_tags=given.get("delete_expired_tags", False),
            delete_expired_branches=given.get("delete_expired_branches", False),
        )


WITH_RULES = (RunKind.COLLECT, RunKind.HISTORY_ONLY)
"""Kinds of runs with a retention policy."""


def removal_for(store: Store, arguments: ApplyArguments) -> Removal:
    """Return the method by which an apply removes objects of a store."""
    asked, markers = arguments.get("quarantine"), arguments.get("markers", False)
    if asked is None:
        asked = store.quarantine_by_default or markers
    if asked is False:
        if markers:
            raise InvalidInput("delete markers need a quarantine")
        return DELETE
    kind = DeleteMarkers if markers else MoveToQuarantine
    if asked is True:
        return kind(KEEP, may_shorten=False)
    if isinstance(asked, str | timedelta):
        return kind(to_timedelta(asked, "quarantine"), may_shorten=True)
    return asked


def limits_of(arguments: ApplyArguments) -> Limits:
    """Return the limits of an apply."""
    size = arguments.get("max_bytes")
    if isinstance(size, str):
        size = parse_size("max_bytes", size)
    return Limits(arguments.get("max_objects"), size)


def to_timedelta(age: Age, name: str) -> timedelta:
    """Convert an age; months and years are counted back from now."""
    if isinstance(age, timedelta):
        if age < timedelta(0):
            raise InvalidInput(f"{name} is negative: {age}")
        return age
    if _ZERO.fullmatch(age):
        return timedelta(0)
    try:
        length = Duration.parse(age)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}", hint=error.hint) from error
    now = SystemClock().now()
    return now - length.before(now)


def parse_size(name: str, text: str) -> int:
    """Parse a number of bytes: MB are a million, MiB and M are 1024 times 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            f"{name}: {text!r} is not a size", hint="write for example 5000000, 500MB or 2GiB"
        )
    number, unit, binary = match.groups()
    if not unit:
        factor = 1
    else:
        decimal = not binary and text.strip().lower().endswith("b")
        factor = (1000 if decimal else 1024) ** _POWERS[unit.lower()]
    return int(float(number) * factor) if "." in number else int(number) * factor


def check_past(policy: Policy) -> None:
    """Refuse an ``older_than`` in the future: every commit is older."""
    now = SystemClock().now()
    for rules in (policy.default, *(rules for _, rules in policy.matches)):
        if isinstance(rules.older_than, datetime) and rules.older_than > now:
            raise InvalidInput(
                f"older_than {instant_text(rules.older_than)} is in the future",
                hint="give an instant in the past, or a duration such as 30d",
            )


def _kind(name: str) -> RunKind:
    try:
        return RunKind(name)
    except ValueError:
        raise InvalidInput(
            f"there is no kind of run {name!r}", hint=f"choose one of {', '.join(RunKind)}"
        ) from None


def _check_kind(request: RunRequest, policy: Policy | None) -> None:
    """Refuse options of other kinds of runs."""
    of_kind: dict[str, tuple[bool, Callable[[RunKind], bool]]] = {
        "a policy": (policy is not None, lambda kind: kind in WITH_RULES),
        "refs": (bool(request.refs), lambda kind: kind is RunKind.HISTORY_ONLY),
        "branch": (request.branch is not None, lambda kind: kind is RunKind.UNCOMMITTED),
        "full": (request.full, lambda kind: kind not in WITH_RULES),
    }
    for option, (given, fits) in of_kind.items():
        if given and not fits(request.kind):
            raise InvalidInput(f"{option} does not go with a run of kind {request.kind}")


def allow_missing(store: Store, *, asked: bool) -> None:
    """Allow a store to treat missing layers or snapshots as lost, on request."""
    if not asked:
        return
    if not isinstance(store, NeedsOtherSnapshots):
        raise InvalidInput(
            f"a {store.kind} store does not tell what is missing",
            hint="leave --unsafe-allow-missing-layers out",
        )
    store.allow_missing()


def _collect_backups(store: Store, *, asked: bool) -> None:
    """Allow a store to collect old copies, on request."""
    if not asked:
        return
    if not isinstance(store, KeepsBackups):
        raise InvalidInput(
            f"a {store.kind} store keeps no copies of what it replaces",
            hint="leave --old-backups out",
        )
    store.collect_backups()


def _empty_place(location: str, store: Store) -> Place:
    url = normalize(location)
    if f"{url}/".startswith(str(Place(store.storage.url, store.format.prefix)) + "/"):
        raise InvalidInput(f"{location} lies inside the store", hint="name a place outside it")
    storage = ObjectStorage.open(url, create=True)
    if next(storage.list(), None) is not None:
        raise AlreadyExists(f"{location} is not empty", hint="name a new place for the plan")
    return Place(storage.url, "")


def _inventory(location: str, store: Store) -> Objects:
    root, address = split(normalize(location))
    return find_inventory(ObjectStorage.open(root), address, store.format)

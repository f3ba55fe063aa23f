"""Stores: open one by its name, and plan, apply, undo and purge."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from reclaim.api.options import (
    Age,
    ApplyArguments,
    Asked,
    PlanArguments,
    allow_missing,
    check_past,
    limits_of,
    removal_for,
    to_timedelta,
)
from reclaim.api.plan import Plan, refuse_deletions
from reclaim.api.plan_names import find_named, is_location
from reclaim.api.run import Run, find_id
from reclaim.api.work import EngineChoice, EngineName, ShowProgress, Work, make_work
from reclaim.errors import Gone, InvalidInput, LeaseLapsed, NotFound, ReclaimError, Refused
from reclaim.ids import new_uid
from reclaim.lock import LockState
from reclaim.model import Lease
from reclaim.policy import Policy
from reclaim.policy.lifecycle import LifecyclePolicy, read_lifecycle
from reclaim.policy.stored import text_of
from reclaim.renewal import Renewal
from reclaim.run.gc import collect
from reclaim.run.lifecycle.rules import find_lifecycle, keeping_lifecycle, store_lifecycle
from reclaim.run.plan.plan_location import LocatedPlan, find_plan
from reclaim.run.plan.stored_policy import find_stored, store_policy
from reclaim.run.purge.purge import Purged, find_due, purge
from reclaim.run.requests import RunKind, find_skip_reason, plan_request
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.abilities import HoldsLeases
from reclaim.stores.base import Store
from reclaim.stores.registry import find, find_all, find_foreign, find_several

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reclaim.catalog import Catalog


SHORTEST_LEASE = timedelta(minutes=15)
"""Shortest lease with time for renewals between the tolerated clock differences."""


@dataclass(frozen=True, slots=True)
class GcResult:
    """Result of a plan and its apply in a single call."""

    plan: Plan | None
    run: Run | None
    """None if there was nothing to collect."""
    note: str = ""
    """Why nothing was planned."""


class OpenStore:
    """An open store: make plans, and look at runs.

    with reclaim.open_store("sales") as store:
        plan = store.plan(reclaim.Policy(keep_last=30))
        print(plan.summary.objects, plan.summary.by_reason)
        run = plan.apply(quarantine="14d")
    """

    def __init__(
        self, store: Store, work: Work, *, close: Callable[[], object] = lambda: None
    ) -> None:
        self.store = store
        """Interface implemented by authors of stores."""
        self.work = work
        self._close = close

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def kind(self) -> str:
        """``catalog``, or the scheme of the store."""
        return self.store.kind

    @property
    def uid(self) -> str:
        """Unique name of the store."""
        return self.store.uid

    def __repr__(self) -> str:
        return f"<OpenStore {self.kind} {self.name}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog, if ``open_store`` opened it."""
        self._close()

    # Plans and runs

    def plan(self, policy: Policy | None = None, **options: Unpack[PlanArguments]) -> Plan:
        """Find unreferenced objects and expired commits and write a plan. Deletes nothing.

        Without a policy, the stored policy applies; ``Policy()`` expires nothing. For the
        options see ``PlanArguments``.
        """
        asked = Asked.of(policy, options)
        chosen = asked.options(self.store)
        with self.work.begin(local=_edits_only(asked)) as (engine, watch):
            made = plan_request(self.store, engine, chosen, asked.request, watcher=watch)
        located = LocatedPlan.at(made.place, made.document)
        return Plan(located, self, not_recorded=made.not_recorded)

    def open_plan(self, name: str) -> Plan:
        """Open a plan of this store, to apply it: by the id of its run, the start of the id,
        ``latest``, or the folder or URL where it was written."""
        if is_location(name):
            return Plan(LocatedPlan.at(*find_plan(name)), self)
        return Plan(find_named([self.store], name).find(), self)

    def gc(
        self,
        policy: Policy | None = None,
        *,
        quarantine: bool | Age | None = None,
        markers: bool = False,
        max_objects: int | None = None,
        max_bytes: int | str | None = None,
        **options: Unpack[PlanArguments],
    ) -> GcResult:
        """Plan and apply in a single call, with the options of ``plan``."""
        return self.gc_with(
            Asked.of(policy, options),
            ApplyArguments(
                quarantine=quarantine,
                markers=markers,
                max_objects=max_objects,
                max_bytes=max_bytes,
            ),
        )

    def gc_with(
        self, asked: Asked, applying: ApplyArguments, *, among_many: bool = False
    ) -> GcResult:
        """Plan and apply with options read before.

        ``among_many`` skips a store without rules for the kind of run. For a single store the
        missing rules are an error.
        """
        edits_only = _edits_only(asked)
        if edits_only:
            refuse_deletions(applying)
        removal = DELETE if edits_only else removal_for(self.store, applying)
        limits, chosen = limits_of(applying), asked.options(self.store)
        if among_many and (reason := find_skip_reason(self.store, asked.request, chosen)):
            return GcResult(None, None, reason)
        with self.work.begin(local=edits_only) as (engine, watch):
            done = collect(
                self.store,
                engine,
                chosen,
                asked.request,
                removal=removal,
                limits=limits,
                watcher=watch,
            )
        plan = run = None
        if done.plan is not None:
            located = LocatedPlan.at(done.plan.place, done.plan.document)
            plan = Plan(located, self, not_recorded=done.plan.not_recorded)
        if done.applied is not None:
            run = Run.of(self, done.applied.run, done.applied)
        return GcResult(plan, run, done.note)

    def runs(self) -> list[Run]:
        """All runs of the store, the newest first."""
        return [Run(self, record) for record in self.store.runs()]

    def run(self, name: str) -> Run:
        """A run by its id, the start of its id, or ``latest``."""
        return Run.of(self, find_id([self.store], name))

    def due(self, *, older_than: Age | None = None) -> list[Run]:
        """Return the runs with a quarantine to purge."""
        age = None if older_than is None else to_timedelta(older_than, "older_than")
        return [Run(self, record) for record in find_due(self.store, age)]

    def purge(
        self, *, older_than: Age | None = None, unsafe_allow_missing_layers: bool = False
    ) -> Purged | None:
        """Delete quarantined objects for good after the end of their quarantine, or objects
        quarantined longer than ``older_than``. None if there is nothing to purge."""
        age = None if older_than is None else to_timedelta(older_than, "older_than")
        if not find_due(self.store, age):
            return None
        allow_missing(self.store, asked=unsafe_allow_missing_layers)
        with self.work.begin() as (engine, watch):
            return purge(self.store, engine, older_than=age, watcher=watch)

    # Rules that are stored with the store

    @property
    def policy(self) -> Policy | None:
        """Stored retention policy."""
        stored = find_stored(self.store)
        return None if stored is None else stored.policy

    def set_policy(self, policy: Policy, *, set_by: str | None = None) -> None:
        """Store a retention policy, and replace an earlier policy."""
        check_past(policy)
        store_policy(self.store, text_of(policy), policy, set_by=set_by or _login())

    def unset_policy(self) -> None:
        """Remove the stored retention policy."""
        self.store.store_policy(None)

    @property
    def lifecycle_rules(self) -> LifecyclePolicy:
        """Stored lifecycle rules of a repository."""
        return find_lifecycle(self.store).policy

    def set_lifecycle_rules(self, text: str, *, set_by: str | None = None) -> None:
        """Store lifecycle rules in JSON or YAML, and replace earlier rules."""
        store_lifecycle(self.store, text, read_lifecycle(text), set_by=set_by or _login())

    def unset_lifecycle_rules(self) -> None:
        """Remove the stored lifecycle rules."""
        keeping_lifecycle(self.store).store_lifecycle(None)

    # Leases and the lock

    @contextmanager
    def lease(
        self, commit: str, *, length: Age = timedelta(hours=2), holder: str | None = None
    ) -> Iterator[Lease]:
        """Keep a commit or snapshot with all its objects while the block runs.

        The lease is renewed in the background, and released at the end. After the
        death of the process it lapses after ``length``. If a renewal fails for so long, the block
        ends with ``LeaseLapsed``. To read a commit of a catalog use ``Repository.lease``.
        """
        store = self._with_leases()
        lasting = to_timedelta(length, "length")
        if lasting < SHORTEST_LEASE:
            raise InvalidInput(
                f"a lease of {lasting} cannot be renewed in time",
                hint=f"use at least {SHORTEST_LEASE}",
            )
        # Another lease of the same holder on the commit would be replaced.
        own = f"{holder or _login()} ({new_uid()[:8]})"
        began = monotonic()
        lease = store.take_lease(commit, holder=own, length=lasting)
        renewed = _Renewed(store, lease, began)
        renewal = Renewal(renewed, f"the lease on {lease.snapshot}")
        renewal.start(lasting / 3)
        try:
            yield lease
            renewed.check(renewal.failure_text())
        finally:
            renewal.close()
            with suppress(NotFound):
                store.release_lease(lease.id)

    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""
        return self.store.leases()

    def release_lease(self, lease_id: str) -> None:
        """Release a lease before it lapses."""
        self._with_leases().release_lease(lease_id)

    def lock_state(self) -> LockState | None:
        """The lock of the store, if a run holds it."""
        return self.store.lock_state()

    def release_lock(self) -> datetime | None:
        """Release the lock of a dead run of this machine; return when the lock is free."""
        seen = self.store.lock_state()
        return None if seen is None else self.store.release_lock(seen)

    def _with_leases(self) -> HoldsLeases:
        if not isinstance(self.store, HoldsLeases):
            raise Refused(
                f"{self.kind} stores have no leases", hint="its margins protect what is in use"
            )
        return self.store


def open_store(
    name: str,
    *,
    catalog: str | Path | Catalog | None = None,
    engine: EngineName = "spark",
    spark: SparkSession | None = None,
    progress: ShowProgress = None,
) -> OpenStore:
    """Open a store by its name on the command line: a repository of the catalog, or
    ``SCHEME:LOCATION`` such as ``icechunk:s3://bucket/weather``.

    ``spark`` is a session of the caller, which stays open. Without it, a local session starts when
    a run needs Spark; ``engine="local"`` needs no Java and handles at most a million objects.
    ``progress`` is a function to call with readings, or ``"rich"`` for a bar.
    """
    if spark is not None and engine != "spark":
        raise InvalidInput("a Spark session is for the engine spark, not for " + repr(engine))
    work = make_work(EngineChoice(engine, spark), progress)
    foreign = find_foreign(name)
    if foreign is not None:
        return OpenStore(foreign, work)
    opened, close = _open_catalog(catalog)
    try:
        return OpenStore(find(opened, name), work, close=close)
    except BaseException:
        close()
        raise


def open_catalog(location: str | Path | None = None) -> Catalog:
    """Open a catalog: a folder, a ``sqlite:///`` file or a ``postgresql://`` URL.

    The default is ``RECLAIM_CATALOG`` of the environment, else the folder ``.reclaim``.
    """
    from reclaim.catalog import Catalog
    from reclaim.catalog.location import default_location

    return Catalog.open(location or default_location())


def list_stores(
    location: str | None = None, *, catalog: str | Path | Catalog | None = None
) -> list[str]:
    """The names of all repositories of a catalog, or of all stores at ``SCHEME:LOCATION``.

    A deleted repository with objects left to collect is named by its uid.
    """
    if location is not None:
        return [named.name for named in find_several(location)]
    opened, close = _open_catalog(catalog)
    try:
        return [store.uid if store.deleted else store.name for store in find_all(opened)]
    finally:
        close()


def _open_catalog(
    catalog: str | Path | Catalog | None,
) -> tuple[Catalog, Callable[[], object]]:
    """Return a catalog and its close function. A catalog opened by the caller stays open."""
    if catalog is None or isinstance(catalog, str | Path):
        opened = open_catalog(catalog)
        return opened, opened.close
    return catalog, lambda: None


class _Renewed:
    """A lease with the time of its last renewal."""

    def __init__(self, store: HoldsLeases, lease: Lease, since: float) -> None:
        self._store = store
        self._lease = lease
        self._since = since
        self._lost: ReclaimError | None = None

    def renew(self) -> None:
        began = monotonic()
        try:
            self._lease = self._store.renew_lease(self._lease)
        except (LeaseLapsed, NotFound, Gone) as error:
            self._lost = error
            raise
        self._since = began

    def check(self, why: str) -> None:
        """Fail unless the lease was renewed in time: its objects may be collected by now."""
        if self._lost is None:
            # The store decides; monotonic time decides if the store does not answer.
            with suppress(ReclaimError):
                self.renew()
        lasted = monotonic() - self._since
        if self._lost is not None or lasted >= self._lease.length.total_seconds():
            raise LeaseLapsed(
                f"the lease on {self._lease.snapshot} was not renewed in time{why}",
                hint="what was read since may have been collected; read it again",
            )


def _edits_only(asked: Asked) -> bool:
    return asked.request.kind is RunKind.HISTORY_ONLY


def _login() -> str:
    """Return the login name of the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"

"""Plan: find what may go, and write it down for review. Changes nothing in the store, which only
notes what the plan hashes to.

The order is the argument. What exists is listed first and written down; then the roots are read.
So an object that is listed and that no root reaches afterwards is garbage, and what is born later
is not in the listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from reclaim.engine.base import Containers, Engine, Found, Objects
from reclaim.engine.tasks import judging
from reclaim.engine.tasks.judging import Rules, Tally
from reclaim.engine.tasks.parts import Opener, Place, open_storage, write_part
from reclaim.errors import InvalidInput, ReclaimError
from reclaim.ids import new_uid
from reclaim.lock import edit_in_progress
from reclaim.model import SnapshotId
from reclaim.policy import Policy, policy_document
from reclaim.run import plan_file, plan_snapshots
from reclaim.run.causes import CAUSES, causes_of, find_dead, find_tops
from reclaim.run.checks import (
    check_clock,
    check_complete,
    check_fraction,
    check_inventory,
    check_partitions,
    find_landmarks,
)
from reclaim.run.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.plan_file import (
    Counts,
    File,
    Group,
    Large,
    Noncurrent,
    PlanDocument,
    StoreName,
    Where,
)
from reclaim.run.promises import keep_promises
from reclaim.run.stages import Silent, Stages, Watcher
from reclaim.storage import LISTED, buckets
from reclaim.stores.base import (
    DecodesSnapshots,
    Margins,
    Observation,
    ObserveRequest,
    Store,
    Survey,
)
from reclaim.urls import is_odd

MOST = 0.9
"""A plan that takes a larger part of all objects than this needs a word from a person."""

REASONS = {
    "data": "uploaded, and in no commit",
    "container": "written for a commit that failed",
    "work": "left behind by a run",
    "record": "a record of an old run",
}
DELETED = "the repository was deleted"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a person asks of a plan."""

    policy: Policy = KEEPS_ALL
    margins: Margins = field(default_factory=Margins)
    place: Place | None = None
    inventory: Objects | None = None
    inventory_name: str | None = None
    allowed_fraction: float = MOST
    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan and where it is."""

    place: Place
    document: PlanDocument
    not_recorded: str | None = None
    """Why the store could not note what the plan hashes to; None when it did, or was not asked."""


def make_plan(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Plan:
    """Find what may go, write it down, and let the store note what the plan hashes to."""
    plan = find_candidates(store, engine, options, watcher=watcher, opener=opener)
    return replace(plan, not_recorded=_note(store, plan.document))


def _note(store: Store, made: PlanDocument) -> str | None:
    """Why the store could not note a plan, if it could not: to plan, one need not write there."""
    try:
        store.record_plan(made.run, made.digest)
    except ReclaimError as error:
        return error.message
    return None


def find_candidates(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Plan:
    """Find what may go, and write it down. The store is not told."""
    return _Planning(
        store, engine, options or PlanOptions(), new_uid(), watcher or Silent(), opener
    ).run()


class _Planning:
    """One plan in the making."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        options: PlanOptions,
        run_id: str,
        watcher: Watcher,
        opener: Opener,
    ) -> None:
        self._store = store
        self._engine = engine
        self._options = options
        self._run = run_id
        self._stages = Stages(run_id, watcher)
        self._place = options.place or Place(*store.place(run_id))
        self._opener = opener
        self._storage = opener(self._place.url)
        self._started = store.clock.now()
        self._versioning = buckets.versioning(store.storage.url) or ""
        self._noncurrent: Noncurrent | None = None
        self._survey: Survey | None = None
        self._partitions: frozenset[str] = frozenset()
        """The partitions whose folders were listed one by one."""

    def run(self) -> Plan:
        try:
            plan = self._plan()
        except BaseException:
            # A plan that was refused is no plan; what is left of it would only be listed again.
            with suppress(ReclaimError):
                self._tidy("work", "containers", "objects")
                self._storage.delete(self._place.at("snapshots.parquet"))
            raise
        self._tidy("work")
        return plan

    def _plan(self) -> Plan:
        stage, work = self._stages.stage, self._place.below("work")
        with stage("check"):
            self._store.check()
            check_clock(self._store, self._storage, work)
        with stage("list") as listing:
            objects = self._inventory() or self._list(work.below("listing"))
            listing.facts["objects"] = sum(part.rows for part in objects.parts)
        if self._versioning:
            with stage("versions") as counting:
                units = buckets.folders(self._store.storage.url, self._store.format.prefix)
                count, size = self._engine.noncurrent(self._store.format, units)
                self._noncurrent = Noncurrent(objects=count, bytes=size)
                counting.facts |= {"noncurrent": count, "bytes": size}
        with stage("observe") as observing:
            seen = self._store.observe(
                ObserveRequest(
                    self._storage,
                    work.at("roots/"),
                    self._engine,
                    self._options.margins.objects,
                    survey=self._survey,
                )
            )
            seen = keep_promises(
                seen,
                self._store,
                self._engine,
                besides=self._run,
                place=work,
                opener=self._opener,
            )
            observing.facts |= {"snapshots": len(seen.ids), "refs": len(seen.refs)}
            # A clock that jumped since has made old what is young.
            check_clock(self._store, self._storage, work)
        with stage("decide") as deciding:
            decided = self._decide(seen)
            dead = find_dead(seen, decided)
            deciding.facts |= {"live": len(decided.live), "dead": len(dead)}
        with stage("mark") as marking:
            tops = find_tops(seen, decided, self._store.format.top)
            containers = self._engine.expand(
                self._store.format, tops, self._place.below("containers")
            )
            marking.facts |= {"containers": containers.containers, "entries": containers.entries}
        if objects.before is not None:
            landmarks = find_landmarks(seen, decided, objects.before)
            objects = replace(objects, landmarks=landmarks)
        with stage("plan") as planning:
            found = self._engine.find(
                self._store.format,
                objects,
                containers,
                seen.held,
                self._rules(seen, objects),
                self._place.below("objects"),
                work,
            )
            planning.facts |= {"candidates": sum(part.rows for part in found.parts)}
        check_complete(seen, decided, tops, containers, found)
        check_inventory(self._store, objects, found)
        check_partitions(self._partitions | found.verdict.strangers.keys(), seen)
        made = self._document(seen, decided, dead, containers, found)
        check_fraction(made)
        # As it is here, not as it can be read: others may be able to write there.
        return Plan(self._place, plan_file.write(self._storage, self._place, made))

    def _units(self) -> Sequence[str]:
        return list(self._store.format.units(self._store.storage))

    def _inventory(self) -> Objects | None:
        given = self._options.inventory
        if given is not None and isinstance(self._store.format, DecodesSnapshots):
            raise InvalidInput(
                f"the {self._store.noun}s of {self._store.name} are read where they are listed; "
                "an inventory cannot stand for that",
                hint="leave --inventory out",
            )
        return given

    def _list(self, place: Place) -> Objects:
        own = self._place.prefix.rstrip("/")
        units = [unit for unit in self._units() if unit != own]
        self._partitions = _partitions(self._store, units)
        format = self._store.format
        if not isinstance(format, DecodesSnapshots):
            return self._engine.list(format, units, place)
        # Its snapshots are files: they are read where they are listed, and once.
        rows = self._engine.survey(format, units)
        self._survey = Survey(rows, self._started)
        listed = rows.select(LISTED.names)
        parts = [write_part(self._storage, place.at("survey.parquet"), listed)]
        return Objects(place.url, parts if rows.num_rows else ())

    def _decide(self, seen: Observation) -> Decided:
        if seen.editor is not None and not self._options.policy.empty:
            raise edit_in_progress(seen.editor)
        return decide_seen(
            self._options.policy,
            seen,
            delete_expired_tags=self._options.delete_expired_tags,
            delete_expired_branches=self._options.delete_expired_branches,
        )

    def _rules(self, seen: Observation, objects: Objects) -> Rules:
        margins = self._options.margins
        ages = {"work": max(margins.objects, margins.work), "record": margins.records}
        cutoffs = {}
        for kind in self._store.format.order:
            cutoffs[kind] = self._started - (
                margins.objects if self._store.deleted else ages.get(kind, margins.objects)
            )
            if objects.before is not None:
                cutoffs[kind] = min(cutoffs[kind], objects.before)
        kinds = self._store.format.order
        return Rules(
            cutoffs=cutoffs,
            closed=seen.closed,
            open=seen.open,
            causes=[DELETED] * len(CAUSES) if self._store.deleted else causes_of(seen),
            reasons=dict.fromkeys(kinds, DELETED) if self._store.deleted else REASONS,
            now=self._started,
            protected=self._protected(),
        )

    def _protected(self) -> Sequence[str]:
        """Folders of the storage that nothing is taken from."""
        return [self._place.prefix] if self._place.url == self._store.storage.url else []

    def _document(
        self,
        seen: Observation,
        decided: Decided,
        dead: Mapping[SnapshotId, str],
        containers: Containers,
        found: Found,
    ) -> PlanDocument:
        store = self._store
        written = plan_snapshots.write(
            self._storage,
            self._place.at("snapshots.parquet"),
            decided,
            dead,
        )
        read = found.read
        return PlanDocument(
            run=self._run,
            place=Where(url=self._place.url, prefix=self._place.prefix),
            store=StoreName(
                kind=store.kind,
                name=store.name,
                uid=store.uid,
                storage=store.storage.url,
                deleted=store.deleted,
                noun=store.noun,
            ),
            promise=store.safety_basis,
            started_at=self._started,
            read_at=seen.read_at,
            cutoff=self._started - self._options.margins.objects,
            policy=list(_words(self._options.policy)),
            rules=policy_document(self._options.policy),
            inventory=self._options.inventory_name,
            versioning=self._versioning,
            noncurrent=self._noncurrent,
            objects=found.objects,
            bytes=found.size,
            candidates=sum(part.rows for part in found.parts),
            candidate_bytes=sum(size for _, size in found.verdict.going.values()),
            allowed_fraction=1.0 if store.deleted else self._options.allowed_fraction,
            expected=Counts(
                snapshots=len(decided.live),
                containers=containers.containers,
                entries=containers.entries,
                held=seen.held_count,
            ),
            read=Counts(
                snapshots=len(decided.live),
                containers=read.containers,
                entries=read.entries,
                held=read.held,
            ),
            refs=len(seen.refs),
            leases=len(seen.leases),
            expired=sum(1 for one in dead if one in decided.before),
            dead=len(dead),
            going=_groups(found.verdict.going),
            staying=_staying(found, store),
            largest=[
                Large(bytes=size, address=address, path=path)
                for size, address, path in found.verdict.largest
            ],
            warnings=[
                *seen.warnings,
                *_warnings(decided, store, self._noncurrent),
                *_odd(found),
            ],
            causes=list(causes_of(seen)),
            deleted_refs=[ref.name for ref in decided.edit.delete_refs],
            files=[File.of(part) for part in found.parts],
            containers=[File.of(part) for part in containers.parts],
            snapshots=File.of(written),
        )

    def _tidy(self, *folders: str) -> None:
        """Remove what only the making of the plan needed."""
        for folder in folders:
            for stored in list(self._storage.list(self._place.at(folder))):
                self._storage.delete(stored.address)


def _partitions(store: Store, units: Sequence[str]) -> frozenset[str]:
    named = [address for unit in units if not is_odd(address := f"{unit}/_")]
    inside = pa.array(named, pa.string())
    partitions = store.format.describe(inside).field("partition").to_pylist()
    return frozenset(partition for partition in partitions if partition)


def _groups(tally: Tally) -> list[Group]:
    ordered = sorted(tally.items(), key=lambda item: (-item[1][1], item[0]))
    return [
        Group(
            objects=count,
            bytes=size,
            kind=kind,
            reason=reason,
            branch=branch,
            prefix=prefix,
            age=age,
        )
        for (kind, reason, branch, prefix, age), (count, size) in ordered
    ]


def _staying(found: Found, store: Store) -> list[Group]:
    groups = [
        Group(objects=count, bytes=size, kind=kind, reason=why)
        for (kind, why), (count, size) in sorted(found.verdict.staying.items())
    ]
    tallies = (found.verdict.going, found.verdict.staying)
    others = sum(count for tally in tallies for count, _ in tally.values())
    rest = sum(size for tally in tallies for _, size in tally.values())
    live = Group(
        objects=found.objects - others,
        bytes=found.size - rest,
        kind="",
        reason=f"in a {store.noun} that stays{', or staged, or pending' if store.exact else ''}",
    )
    return [live, *groups]


def _warnings(decided: Decided, store: Store, noncurrent: Noncurrent | None) -> Iterator[str]:
    if noncurrent is not None:
        yield (
            "the bucket keeps versions, so that deleting frees nothing by itself; it holds "
            f"{noncurrent.objects} noncurrent versions of this store ({noncurrent.bytes} bytes): "
            "expire those by a rule of the bucket, or apply with --quarantine --markers and purge"
        )
    for base in decided.edit.touched_bases:
        yield (
            f"the base of {base.branch} with the default branch is touched: a merge will treat "
            "every difference as a conflict"
        )
    for ref in decided.edit.expired_tips:
        if ref not in decided.edit.delete_refs:
            yield f"the {ref.kind} {ref.name} is at an expired commit, and stays with it"
    if not store.exact:
        yield "what is live is protected by the margins, not by exact references"


def _odd(found: Found) -> Iterator[str]:
    count = sum(
        objects for (_, why), (objects, _) in found.verdict.staying.items() if why == judging.ODD
    )
    if count:
        yield (
            f"{count} objects have odd keys and are left alone, such as "
            f"{', '.join(map(repr, found.verdict.odd))}: a control character, or a part that is "
            "empty, '.' or '..'; if nobody needs them, remove them with the storage's own tools"
        )


def _words(policy: Policy) -> Iterator[str]:
    for match, rules in policy.matches:
        kind = f"{match.kind} " if match.kind else ""
        yield f"{kind}{match.glob}: {', '.join(rules.sentences()) or 'everything stays'}"
    yield f"default: {', '.join(policy.default.sentences()) or 'everything stays'}"

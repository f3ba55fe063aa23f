"""The demonstration: a catalog with three months of simulated history.

``build`` writes the history of a small team. ``run`` plans and applies like a retention job,
records the objects before and after, and reads back all referenced objects. Nothing here prints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from random import Random

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.collection.roots import observing
from reclaim.catalog.content.ranges import decode_metarange
from reclaim.catalog.refs.commits import Commit
from reclaim.clock import Clock
from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, open_storage
from reclaim.errors import Corrupt, Gone
from reclaim.model import StoredObject
from reclaim.policy import from_options
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.decide import KEEPS_ALL, decide
from reclaim.run.plan.history_only import plan_history
from reclaim.run.plan.plan_document import Group
from reclaim.run.plan.plan_location import LocatedPlan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.sweep.removal import KEEP, MoveToQuarantine
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.storage import ObjectStorage, Storage, hashed_files
from reclaim.stores.registry import find
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.urls import path_of

REPOSITORY = "sales"
TRIAL = "trial"
"""A repository for a run with a quarantine."""
DAYS = 90
WEEKS, LAST = 13, 3
WORKDAYS = (0, 2, 4)
REGIONS = ("north", "south", "east", "west")

DATA = "data"
CONTAINERS = "ranges and metaranges"
RECORDS = "records of runs"
BOOKKEEPING = "bookkeeping"
KINDS = (DATA, CONTAINERS, RECORDS, BOOKKEEPING)

SHOWN = "a branch or a tag shows it"
OLD = "only older commits have it"
STAGED = "staged, not committed"
PENDING = "an upload token waits for it"
UNREACHED = "nothing reaches it"
REASONS = (SHOWN, OLD, STAGED, PENDING, UNREACHED)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of objects and their bytes."""

    objects: int = 0
    bytes: int = 0

    def plus(self, size: int) -> Amount:
        return Amount(self.objects + 1, self.bytes + size)


@dataclass(frozen=True, slots=True)
class Picture:
    """A repository at one instant."""

    kinds: Mapping[str, Amount]
    reasons: Mapping[str, Amount]
    """Objects of data and containers, by reason."""
    rows: int
    """Rows in the staging tables, including unused rows."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An object in the plan, with its reason."""

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """Results of the demonstration."""

    catalog: str
    began: datetime
    ended: datetime
    commits: int
    refs: int
    tokens_expired: int
    rows_cleaned: int
    rule: str
    released: int
    """Commits made unreachable by the rule."""
    run: str
    before: Picture
    expired: Picture
    """After the edit of the history, before deletions."""
    after: Picture
    plan: str
    """Location of the plan."""
    applied: str
    """Run of the apply."""
    going: Mapping[str, Amount]
    """Objects deleted by the plan, by reason."""
    collected: int
    """Removed commits."""
    read_back: Amount
    """Referenced objects, read again at the end."""
    explained: Explained
    """A deleted object."""
    gone: str
    """Error message of a read from a removed commit."""
    moved: Amount
    """Objects of the second repository moved to quarantine."""
    restored: Amount
    """Objects restored by the undo."""
    undone: str
    """The undone run."""


def run(folder: Path, engine: Engine, *, until: datetime) -> Report:
    """Build a catalog with a history up to ``until``, and collect its garbage."""
    began = until - timedelta(days=DAYS)
    clock = FakeClock(began)
    build(folder, clock)
    # Readers hold leases, so reads and collections use separate catalogs.
    with _open(folder, clock) as catalog:
        repo = catalog.repository(REPOSITORY)
        storage = ObjectStorage.open(catalog.storage_url)
        listed = list(storage.list(f"repos/{repo.uid}"))
        seen = _Roots.read(storage, repo)
        cleaned = repo.clean()
        history = repo.log()
        rule = PlanOptions(from_options(keep_last=LAST, keep_weekly=WEEKS))
        edit = _expire(catalog, engine, clock, rule)
        roots = _Roots.read(storage, repo)
        expired = _picture(list(storage.list(f"repos/{repo.uid}")), roots)
    with _open(folder, clock) as catalog:
        plan, collected = _collect(catalog, engine, clock)
    with _open(folder, clock) as catalog:
        repo = catalog.repository(REPOSITORY)
        read_back = _read_back(repo)
        left = list(storage.list(f"repos/{repo.uid}"))
        gone = _gone(repo, history)
    with _open(folder, clock) as catalog:
        moved, undone = _quarantine(catalog, engine, clock)
        return Report(
            catalog=str(folder.absolute()),
            began=began,
            ended=clock.now(),
            commits=seen.commits,
            refs=seen.refs,
            tokens_expired=roots.tokens_expired,
            rows_cleaned=cleaned.rows,
            rule=f"the last {LAST} commits of each ref, and one for each of {WEEKS} weeks",
            released=edit.edit.released,
            run=edit.run,
            before=_picture(listed, seen, cleaned.rows),
            expired=expired,
            after=_picture(left, roots),
            plan=path_of(str(plan.place)),
            applied=collected.run,
            going=_sums(plan.document.going),
            collected=collected.collected,
            read_back=read_back,
            explained=_explained(plan),
            gone=gone,
            moved=moved,
            restored=Amount(undone.objects, undone.bytes),
            undone=undone.run,
        )


def _collect(catalog: Catalog, engine: Engine, clock: FakeClock) -> tuple[WrittenPlan, Applied]:
    """Plan and apply, like the commands of the same names."""

    store, opener = find(catalog, REPOSITORY), _opener(clock)
    plan = make_plan(store, engine, opener=opener)
    return plan, apply_plan(store, engine, plan.place, opener=opener)


def _explained(plan: WrittenPlan) -> Explained:
    """Find the largest object with a path in a plan."""
    opened = LocatedPlan.at(plan.place, plan.document)
    columns = ("path", "size", "reason")
    rows = [row for file in plan.document.files for row in opened.read(file, columns).to_pylist()]
    largest = max((row for row in rows if row["path"]), key=lambda row: row["size"])
    return Explained(**largest)


def _gone(repo: Repository, history: Sequence[Commit]) -> str:
    """Return the error message for the newest removed commit."""
    stay = {commit.id for commit in repo.log()}
    removed = next(commit.id for commit in history if commit.id not in stay)
    try:
        repo.at(removed).list()
    except Gone as error:
        return error.message
    raise Corrupt(f"{removed} was removed, but can be read")


def _quarantine(catalog: Catalog, engine: Engine, clock: FakeClock) -> tuple[Amount, Undone]:
    """Move unreferenced objects of the second repository to quarantine, and restore them."""
    store, opener = find(catalog, TRIAL), _opener(clock)
    plan = make_plan(store, engine, opener=opener)
    removal = MoveToQuarantine(KEEP, may_shorten=False)
    applied = apply_plan(store, engine, plan.place, removal=removal, opener=opener)
    counts = applied.summary()
    undone = undo_run(store, engine, applied.run, opener=opener)
    return Amount(counts["objects"], counts["bytes"]), undone


def _expire(catalog: Catalog, engine: Engine, clock: FakeClock, rule: PlanOptions) -> Applied:
    """Plan and apply an edit of the history only."""
    store, opener = find(catalog, REPOSITORY), _opener(clock)
    plan = plan_history(store, rule, opener=opener)
    return apply_plan(store, engine, plan.place, opener=opener)


def _opener(clock: FakeClock) -> Opener:
    return lambda url: ClockedStorage(open_storage(url), clock)


def _sums(groups: Iterable[Group]) -> dict[str, Amount]:
    sums: defaultdict[str, Amount] = defaultdict(Amount)
    for group in groups:
        before = sums[group.reason]
        sums[group.reason] = Amount(before.objects + group.objects, before.bytes + group.bytes)
    return dict(sums)


def _read_back(repo: Repository) -> Amount:
    """Read every object of branches (staged changes too), tags and older commits."""
    names = [ref.name for ref in (*repo.branches(), *repo.tags())]
    older = {commit.id for name in names for commit in repo.log(name)}
    seen: set[str] = set()
    read = Amount()
    for ref in (*names, *sorted(older)):
        reader = repo.at(ref)
        for entry in reader.entries():
            if entry.address not in seen:
                seen.add(entry.address)
                data = reader.get(entry.path)
                if f"sha256:{sha256(data).hexdigest()}" != entry.checksum:
                    raise Corrupt(f"{entry.path} of {ref} has changed")
                read = read.plus(len(data))
    return read


def _open(folder: Path, clock: Clock) -> Catalog:
    return Catalog.open(
        folder, clock=clock, wrap_storage=lambda storage: ClockedStorage(storage, clock)
    )


# --- The history -----------------------------------------------------------------------------


def build(folder: Path, clock: FakeClock) -> None:
    """Create the catalog and ``DAYS`` days of history."""
    Catalog.init(
        folder, clock=clock, wrap_storage=lambda storage: ClockedStorage(storage, clock)
    ).close()
    with _open(folder, clock) as catalog:
        story = _Story(
            catalog.create_repository(REPOSITORY),
            catalog.create_repository(TRIAL),
            catalog.storage_url,
            clock,
        )
        story.tell()


class _Story:
    """Ninety days of a repository."""

    def __init__(
        self, repo: Repository, trial: Repository, storage_url: str, clock: FakeClock
    ) -> None:
        self._repo = repo
        self._trial = trial
        self._storage_url = storage_url
        self._clock = clock
        self._random = Random(7)
        self._main = repo.branch("main")

    def tell(self) -> None:
        chapters = {
            12: self._start_forecast,
            25: self._merge_forecast,
            30: lambda: self._release("v1"),
            38: self._start_cleanup,
            45: self._merge_cleanup,
            52: self._abandon_upload,
            58: self._reset_upload,
            59: self._reset_trial,
            60: lambda: self._release("v2"),
            70: self._start_experiment,
            88: self._leave_leftovers,
            89: self._delete_spike,
        }
        for day in range(DAYS):
            if day in chapters:
                chapters[day]()
            if day % 7 in WORKDAYS:
                self._work(day)
            self._clock.advance(days=1)

    def _work(self, day: int) -> None:
        """A working day: new orders, running totals overwritten, old drafts deleted."""
        today = {f"orders/day-{day:03d}.csv": 8_000, f"drafts/day-{day:03d}.txt": 3_000}
        totals = {f"totals/{region}.csv": 20_000 for region in self._random.sample(REGIONS, 2)}
        self._put(self._main, today | totals)
        old = f"drafts/day-{day - 14:03d}.txt"
        if self._main.exists(old):
            self._main.delete(old)
        self._clock.advance(hours=8)
        self._main.commit(f"Orders of day {day}", committer="ines")
        self._clock.advance(hours=-8)

    def _start_forecast(self) -> None:
        branch = self._repo.create_branch("forecast")
        self._put(branch, {f"forecast/{region}.csv": 15_000 for region in REGIONS})
        branch.commit("First forecast", committer="omar")
        self._put(branch, {f"forecast/{region}.csv": 15_000 for region in REGIONS[:2]})
        branch.commit("Better forecast for two regions", committer="omar")

    def _merge_forecast(self) -> None:
        self._main.merge("forecast", committer="ines")
        self._repo.delete_branch("forecast")

    def _start_cleanup(self) -> None:
        branch = self._repo.create_branch("cleanup")
        branch.delete("orders/day-000.csv")
        branch.move("orders/day-002.csv", "archive/day-002.csv")
        branch.commit("Archive the first days", committer="omar")

    def _merge_cleanup(self) -> None:
        self._main.merge("cleanup", committer="ines")

    def _release(self, name: str) -> None:
        self._repo.create_tag(name, "main")

    def _abandon_upload(self) -> None:
        """Upload bytes for a token, and never link it."""
        place = self._main.get_physical_address("imports/big.parquet")
        storage = ClockedStorage(ObjectStorage.open(self._storage_url), self._clock)
        storage.put(place.address, self._random.randbytes(60_000))

    def _reset_upload(self) -> None:
        """Stage an upload on the wrong branch, and discard it."""
        branch = self._repo.branch("cleanup")
        self._put(branch, {"wrong/export.csv": 40_000})
        branch.reset()

    def _start_experiment(self) -> None:
        branch = self._repo.create_branch("experiment")
        self._put(branch, {f"experiment/run-{number}.csv": 12_000 for number in range(6)})
        branch.commit("Six runs", committer="omar")
        spike = self._repo.create_branch("spike")
        self._put(spike, {f"spike/sample-{number}.csv": 25_000 for number in range(8)})
        spike.commit("Samples", committer="omar")

    def _leave_leftovers(self) -> None:
        """Leave uncommitted changes, including an overwritten upload."""
        branch = self._repo.branch("experiment")
        self._put(branch, {f"experiment/new-{number}.csv": 18_000 for number in range(3)})
        self._put(branch, {"experiment/new-0.csv": 18_000})
        spike = self._repo.branch("spike")
        self._put(spike, {f"spike/late-{number}.csv": 9_000 for number in range(5)})

    def _reset_trial(self) -> None:
        """Stage and discard uploads in the second repository."""
        branch = self._trial.branch("main")
        self._put(branch, {f"readings/{number}.csv": 10_000 for number in range(4)})
        branch.commit("Readings", committer="omar")
        self._put(branch, {f"wrong/{number}.csv": 10_000 for number in range(3)})
        branch.reset()

    def _delete_spike(self) -> None:
        self._repo.delete_branch("spike")

    def _put(self, branch: Branch, sizes: Mapping[str, int]) -> None:
        """Upload objects with about these sizes."""
        branch.put_many(
            [
                (path, self._random.randbytes(size + self._random.randrange(size)))
                for path, size in sizes.items()
            ]
        )


# --- The state of a repository ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Roots:
    """Referenced addresses, by kind of reference."""

    commits: int
    refs: int
    shown: frozenset[str]
    committed: frozenset[str]
    staged: frozenset[str]
    pending: frozenset[str]
    """Addresses of upload tokens, including expired tokens."""
    tokens_expired: int

    @classmethod
    def read(cls, storage: Storage, repo: Repository) -> _Roots:
        files = ObjectStorage.open("memory://")
        # With settled states, expired tokens count until a run ends them.
        seen, judged = repo.read_roots(files, settled=True), repo.read_roots(files)
        held: dict[str, set[str]] = {observing.STAGED: set(), observing.PENDING: set()}
        for file in seen.files:
            for row in hashed_files.read(files, file).to_pylist():
                held[row["held_by"]].add(row["address"])
        history = seen.history
        live = decide(
            KEEPS_ALL,
            snapshots=history.snapshots,
            refs=history.refs,
            leases=seen.leases,
            now=seen.read_at,
        ).live
        needed = {
            commit: _needed(storage, repo, commit, seen.metaranges[commit]) for commit in live
        }
        return cls(
            commits=len(live),
            refs=len(history.refs),
            shown=frozenset().union(*(needed[ref.snapshot] for ref in history.refs)),
            committed=frozenset().union(*needed.values()),
            staged=frozenset(held[observing.STAGED]),
            pending=frozenset(held[observing.PENDING]),
            tokens_expired=seen.held - judged.held,
        )

    def reason(self, address: str) -> str:
        """Return the reason to keep an object, or its lack of references."""
        if address in self.shown:
            return SHOWN
        if address in self.committed:
            return OLD
        if address in self.staged:
            return STAGED
        return PENDING if address in self.pending else UNREACHED


def _needed(storage: Storage, repo: Repository, commit: str, metarange: str) -> frozenset[str]:
    """Return all addresses of a commit: data, metarange and ranges."""
    if not metarange:
        return frozenset()
    ranges = decode_metarange(storage.get(metarange), metarange)
    data = (entry.address for entry in repo.at(commit).entries() if entry.owned)
    return frozenset([metarange, *(info.address for info in ranges), *data])


def _picture(listed: Sequence[StoredObject], roots: _Roots, unread_rows: int = 0) -> Picture:
    collectable = [stored for stored in listed if _kind(stored.address) in (DATA, CONTAINERS)]
    return Picture(
        kinds=_amounts(KINDS, ((_kind(stored.address), stored.size) for stored in listed)),
        reasons=_amounts(
            REASONS, ((roots.reason(stored.address), stored.size) for stored in collectable)
        ),
        rows=len(roots.staged) + unread_rows,
    )


def _kind(address: str) -> str:
    _repos, _uid, *parts = address.split("/")
    if parts[0] == "branches":
        return DATA
    folder = parts[1] if len(parts) > 1 else ""
    return {"meta": CONTAINERS, "runs": RECORDS}.get(folder, BOOKKEEPING)


def _amounts(names: Iterable[str], sizes: Iterable[tuple[str, int]]) -> dict[str, Amount]:
    sums: defaultdict[str, Amount] = defaultdict(Amount)
    for name, size in sizes:
        sums[name] = sums[name].plus(size)
    return {name: sums[name] for name in names}

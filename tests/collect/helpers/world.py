"""A repository that is collected: what must be there, what is there, and a past that is dead.

What is needed is worked out here from the catalog's own rows and trees, commit by commit, and
shares nothing with the collector.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from reclaim.catalog import Catalog, Repository
from reclaim.catalog.addresses import HOME, MARKER
from reclaim.catalog.catalog import WrapStorage
from reclaim.catalog.content import ranges
from reclaim.catalog.database.schema import (
    CommitState,
    PartitionState,
    TokenState,
    UploadState,
    catalog_info,
    commits,
    metadata,
    partitions,
    staged_entries,
    staging_tokens,
    upload_tokens,
)
from reclaim.clock import to_micros
from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import Opener, open_storage, read_part
from reclaim.policy import Policy
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.decide import KEEPS_ALL
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.run.uncommitted.planning import UncommittedOptions, plan_uncommitted
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins
from reclaim.testing import FakeClock, StorageWrapper
from tests.catalog import raw
from tests.conftest import Backend
from tests.support import stepping
from tests.support.resting import Resting
from tests.support.switching import SwitchingStorage

NAME = "sales"
OF_RUNS = (
    "epoch/",
    "runs/",
    "quarantine/",
    "checkpoints/",
    "protected/",
    "lifecycle/",
)
"""Folders of what runs write for themselves."""
Step = Callable[[str], None]
Files = dict[str, bytes]


def nothing(_step: str) -> None:
    pass


@dataclass
class World:
    """One repository, and any number of instances that work on it."""

    backend: Backend
    repo: Repository
    margins: Margins = field(default_factory=Margins)

    @classmethod
    def make(cls, backend: Backend) -> World:
        return cls(backend, backend.init().create_repository(NAME))

    @property
    def clock(self) -> FakeClock:
        return self.backend.clock

    @property
    def storage(self) -> Storage:
        """The storage itself, around every wrapper but the clock."""
        assert self.backend._clocked is not None
        return self.backend._clocked

    def opened(self, wrap: WrapStorage | None = None) -> Catalog:
        return self.backend.open(wrap)

    def other(self, wrap: WrapStorage | None = None) -> Repository:
        """The repository as another instance sees it."""
        return self.opened(wrap).repository(NAME)

    def store(self, catalog: Catalog | None = None) -> CatalogStore:
        return CatalogStore((catalog or self.opened()).workspace(NAME))

    def age(self) -> None:
        """Let so much time pass that no margin, token or partition protects anything."""
        self.clock.advance(days=2)

    def engine(self, step: Step = nothing, storage: Storage | None = None) -> LocalEngine:
        found = storage or self.storage
        return LocalEngine(lambda _url: found, clock=self.clock, step=step)

    def plan(
        self,
        policy: Policy = KEEPS_ALL,
        *,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
        **options: Any,
    ) -> WrittenPlan:
        asked = PlanOptions(policy=policy, margins=self.margins, **options)
        found = storage or self.storage
        return make_plan(
            store or self.store(), self.engine(step, found), asked, opener=opening(found)
        )

    def uncommitted(
        self,
        mode: Mode = Mode.INCREMENTAL,
        *,
        branch: str | None = None,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
        **options: Any,
    ) -> WrittenPlan:
        """A plan of a run on uncommitted data."""
        asked = PlanOptions(margins=self.margins, **options)
        found = storage or self.storage
        return plan_uncommitted(
            store or self.store(),
            self.engine(step, found),
            asked,
            UncommittedOptions(mode is Mode.FULL, branch),
            opener=opening(found),
        )

    def apply(
        self,
        plan: WrittenPlan,
        *,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
        removal: Removal = DELETE,
        exclude: Sequence[str] = (),
        digest: str | None = None,
    ) -> Applied:
        found = storage or self.storage
        return apply_plan(
            store or self.store(),
            self.engine(step, found),
            plan.place,
            digest=digest,
            removal=removal,
            exclude=exclude,
            opener=opening(found),
        )

    def undo(
        self,
        run: str,
        *,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
    ) -> Undone:
        found = storage or self.storage
        return undo_run(store or self.store(), self.engine(step, found), run, opener=opening(found))

    def purge(
        self,
        older_than: timedelta | None = None,
        *,
        run_id: str | None = None,
        step: Step = nothing,
        store: Store | None = None,
        storage: Storage | None = None,
    ) -> Purged | None:
        found = storage or self.storage
        return purge(
            store or self.store(),
            self.engine(step, found),
            older_than=older_than,
            run_id=run_id,
            opener=opening(found),
        )

    def candidates(self, plan: WrittenPlan) -> dict[str, str]:
        """What a plan lists: address → reason."""
        rows = [read_part(self.storage, file.part) for file in plan.document.files]
        return {row["address"]: row["reason"] for table in rows for row in table.to_pylist()}

    def there(self) -> set[str]:
        """Everything in the storage but epochs and what runs write for themselves."""
        ours = f"repos/{self.repo.uid}/_reclaim/"
        return {
            address
            for address in raw.objects(self.repo)
            if not address.startswith(tuple(ours + folder for folder in OF_RUNS))
        }

    def aside(self) -> set[str]:
        """What is in quarantine, by where it belongs."""
        ours = f"repos/{self.repo.uid}/_reclaim/quarantine/"
        return {
            f"repos/{self.repo.uid}/" + address[len(ours) :].partition("/")[2]
            for address in raw.objects(self.repo)
            if address.startswith(ours)
        }

    def needed(self) -> set[str]:
        """Every address that a ref, a lease, staging or an upload needs."""
        repo = self.other()
        metaranges = {row.id: row.metarange for row in raw.rows(repo, commits)}
        reached = {metaranges[commit] for commit in self.reached(repo)}
        found = {address for metarange in reached for address in addresses_in(repo, metarange)}
        now = to_micros(self.clock.now())
        open_tokens = {
            row.id
            for row in raw.rows(repo, staging_tokens)
            if row.state in (TokenState.OPEN, TokenState.SEALED)
        }
        found |= {
            row.address
            for row in raw.rows(repo, staged_entries)
            if row.token_id in open_tokens and row.owned and row.address
        }
        found |= {
            row.address
            for row in raw.rows(repo, upload_tokens)
            if row.state == UploadState.PENDING and row.expires_at > now
        }
        in_flight = self.in_flight(repo)
        there = self.there()
        found |= {one for one in there if in_flight & set(one.split("/"))}
        return found & there | {a for a in found if "/branches/" not in a}

    def in_flight(self, repo: Repository) -> set[str]:
        """The partitions of commits that may still land: they are kept until that is decided."""
        named = {
            row.partition_id
            for row in raw.rows(repo, staging_tokens)
            if row.state == TokenState.SEALED and row.partition_id
        }
        not_closed = {
            row.id for row in raw.rows(repo, partitions) if row.state != PartitionState.CLOSED
        }
        return named & not_closed

    def reached(self, repo: Repository) -> set[str]:
        """The commits that refs and valid leases reach."""
        tips = [ref.commit for ref in (*repo.branches(), *repo.tags())]
        tips += [str(lease.snapshot) for lease, valid in repo.leases() if valid]
        parents = {row.id: json.loads(row.parents) for row in raw.rows(repo, commits)}
        found: set[str] = set()
        while tips:
            commit = tips.pop()
            if commit not in found:
                found.add(commit)
                tips += parents[commit]
        return found

    def check(self, repo: Repository | None = None) -> None:
        """Everything that can be reached is there and reads back its bytes.

        Give a ``repo`` of an instance that has read nothing before.
        """
        repo = repo or self.other()
        objects: Files = {}
        for commit in self.reached(repo):
            whole(repo, commit, objects)
        for ref in repo.branches():
            whole(repo, ref.name, objects)

    def check_swept(self, plan: WrittenPlan, before: set[str]) -> None:
        """Of what was there, exactly that went which the plan listed and nothing needs."""
        self.check()
        gone = before - self.there()
        listed = {address for address in self.candidates(plan) if address in before}
        assert gone == listed - self.needed()

    def release_undos(self) -> None:
        """Release what undos hold, as an operator would."""
        for lease, _ in self.repo.leases():
            if lease.undone_run is not None:
                self.repo.release_lease(lease.id)

    def quiet(self) -> None:
        """A run with nobody about leaves what is needed; a second one finds nothing."""
        self.age()
        store = self.store()
        self.apply(self.plan(allowed_fraction=1.0, store=store), store=store)
        self.check()
        needed = self.needed()
        assert self.there() == needed
        again = self.plan(store=store)
        assert again.document.candidates == 0
        if leftovers(self.repo):
            # Commits of which no object was there end with a run that takes none.
            assert self.apply(again, store=store).summary()["objects"] == 0
            assert self.there() == needed
        assert not self.leftovers()

    def leftovers(self) -> set[str]:
        """Commits on their way out that no commit in flight holds up."""
        in_flight = self.in_flight(self.repo)
        metaranges = {row.id: row.metarange for row in raw.rows(self.repo, commits)}
        return {
            one for one in leftovers(self.repo) if not in_flight & set(metaranges[one].split("/"))
        }


def opening(found: Storage) -> Opener:
    """Opens a storage as it is given; folders in it, where runs have their plans, as they are.

    What is read there is a step as well.
    """

    def opened(url: str) -> Storage:
        if not url.startswith(f"{found.url}/"):
            return found
        folder = open_storage(url)
        return found.below(folder) if isinstance(found, SwitchingStorage) else folder

    return opened


def addresses_of(repo: Repository, commit: str) -> set[str]:
    """Every address that one commit needs."""
    return addresses_in(repo, repo.commit(commit).metarange)


def addresses_in(repo: Repository, metarange: str) -> set[str]:
    """Every address that a metarange needs."""
    if not metarange:
        return set()
    tree = repo._workspace.containers.tree(metarange)
    entries = {entry.address for entry in tree.entries() if entry.owned}
    return {metarange, *(info.address for info in tree.ranges), *entries}


def whole(repo: Repository, ref: str, objects: Files | None = None) -> Files:
    """What a ref shows, every byte of it compared with its checksum.

    The first entry is read as users do, which takes a transaction; the others are only looked up.
    ``objects`` has what was read already, by its address.
    """
    reader = repo.at(ref)
    objects = {} if objects is None else objects
    shown: Files = {}
    for entry in reader.entries():
        if entry.address not in objects:
            as_users_do = not shown or not entry.owned
            storage = repo._workspace.storage
            objects[entry.address] = (
                reader.get(entry.path) if as_users_do else storage.get(entry.address)
            )
        data = objects[entry.address]
        method, _, told = entry.checksum.partition(":")
        assert len(data) == entry.size
        assert method != "sha256" or hashlib.sha256(data).hexdigest() == told
        shown[entry.path] = data
    return shown


def commit_states(repo: Repository) -> dict[str, str]:
    return {row.id: row.state for row in raw.rows(repo, commits)}


def leftovers(repo: Repository) -> dict[str, str]:
    """Commits that are on their way out; after a quiet run there are none."""
    on_the_way = (CommitState.PROVISIONAL, CommitState.CONDEMNED)
    return {one: state for one, state in commit_states(repo).items() if state in on_the_way}


@dataclass(frozen=True)
class Past:
    """A history with dead commits.

    ``keep`` is where main is; ``first`` and ``second`` were made on a branch that was deleted, and
    change some of what ``keep`` has and add to it.
    """

    keep: str
    first: str
    second: str
    files: dict[str, Files]
    """What each of them shows."""


_buried: dict[tuple[object, ...], tuple[Resting, Past]] = {}
"""Pasts that were made before in this process, by the kind of world."""


def bury(world: World) -> Past:
    """Make a past, close everything, and let it grow old.

    In a world that is as it was made, the past is a copy of one that was made before.
    """
    if not _is_fresh(world):
        return _bury(world)
    backend = world.backend
    kind = (backend.postgres is not None, backend.storage is not None, ranges.TARGET_ROWS)
    if kind in _buried:
        resting, past = _buried[kind]
        world.repo = resting.restore(backend).repository(NAME)
        return past
    past = _bury(world)
    _buried[kind] = (Resting(backend), past)
    world.repo = world.other()
    return past


_COUNTS = select(
    *(
        select(func.count()).select_from(table).scalar_subquery().label(table.name)
        for table in metadata.tables.values()
        if table is not catalog_info
    )
)
_FRESH = {"repositories": 1, "branches": 1, "commits": 1, "staging_tokens": 1}


def _is_fresh(world: World) -> bool:
    """Whether nobody has done anything yet, and a copy can stand for it."""
    backend = world.backend
    on_server = backend.location.startswith("postgresql://")
    if on_server != (backend.postgres is not None):
        return False
    if backend.clock.now() != FakeClock().now() or backend.skew:
        return False
    with world.repo._workspace.database.read() as connection:
        counts = connection.execute(_COUNTS).mappings().one()
    if {name: count for name, count in counts.items() if count} != _FRESH:
        return False
    return {one.address for one in world.storage.list()} <= {HOME, MARKER}


def _bury(world: World) -> Past:
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    for path in ("a", "b/1", "b/2", "c"):
        main.put(path, f"main {path}".encode())
    keep = main.commit("keep").id
    world.clock.advance(hours=1)
    old = repo.create_branch("old", "main")
    old.put("a", b"old a")
    old.put("x", b"old x")
    first = old.commit("first").id
    world.clock.advance(hours=1)
    old.put("y", b"old y")
    old.delete("c")
    second = old.commit("second").id
    files = {commit: whole(repo, commit) for commit in (keep, first, second)}
    repo.delete_branch("old")
    repo.create_branch("work", "main")
    repo.create_branch("clean", "main")
    catalog.close()
    world.age()
    return Past(keep, first, second, files)


STEPS = (
    "begin",
    "start",
    "close_overdue",
    "read_history",
    "edit_history",
    "observe",
    "condemn",
    "release",
    "promote",
    "claim",
    "close_claims",
    "drop_claims",
    "promote_claims",
    "collect",
    "set_aside",
    "taken",
    "restore",
    "forget",
    "finish",
)


def stepped(store: CatalogStore, step: Step) -> CatalogStore:
    """The store, of which every call that matters is a step: told before and after each."""
    return stepping.stepped(store, step, STEPS)


class At:
    """Does something once, at the nth time that a step is reached."""

    def __init__(self, name: str, work: Callable[[], object], *, nth: int = 1) -> None:
        self._name = name
        self._work = work
        self._left = nth
        self.done = False

    def __call__(self, step: str) -> None:
        if step != self._name or self.done:
            return
        self._left -= 1
        if self._left == 0:
            self.done = True
            self._work()


class Interrupting(StorageWrapper):
    """Does something once, when objects below a folder were written and are to be made to last."""

    def __init__(self, inner: Storage, folder: str, work: Callable[[], object]) -> None:
        super().__init__(inner)
        self._folder = folder
        self._work: Callable[[], object] | None = work

    def flush(self, addresses: Iterable[str]) -> None:
        written = list(addresses)
        if self._work is not None and any(self._folder in address for address in written):
            work, self._work = self._work, None
            work()
        super().flush(written)

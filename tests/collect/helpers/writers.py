"""Writers and readers in any order, held to plain dictionaries: half of a state machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.catalog import WrapStorage
from reclaim.catalog.content import ranges
from reclaim.catalog.database.schema import CommitState
from reclaim.catalog.refs import committing
from reclaim.catalog.staging.physical_addresses import PhysicalAddress
from reclaim.engine.tasks import deleting
from reclaim.errors import (
    Conflict,
    DirtyBranch,
    Gone,
    InvalidInput,
    MergeConflict,
    NothingToCommit,
    TokenExpired,
    TransactionFailed,
)
from reclaim.policy import from_options
from reclaim.testing import FakeClock
from tests.collect.helpers.world import NAME, Files, World, commit_states, whole
from tests.conftest import Backend
from tests.support import expiring
from tests.support.dying import Died
from tests.support.memory import folder_in_memory

PATHS = st.sampled_from(["a", "a/b", "b/x", "c"])
BYTES = st.binary(min_size=1, max_size=3)
POLICIES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {}, {"older_than": "2d"}, {"keep_last": 2}]
)
TIMES = st.sampled_from(
    [timedelta(minutes=1), timedelta(minutes=16), timedelta(hours=7), timedelta(days=2)]
)
LATE = (Gone, TransactionFailed)


@dataclass
class ModelBranch:
    head: str
    files: Files


@dataclass
class Model:
    branches: dict[str, ModelBranch] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)


class WriterMachine(RuleBasedStateMachine):
    """A catalog that is written, and dictionaries of what every commit and branch shows."""

    def __init__(self) -> None:
        super().__init__()
        self._cleanup = ExitStack()
        folder = self._cleanup.enter_context(folder_in_memory())
        patch = self._cleanup.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(ranges, "TARGET_ROWS", 2)
        patch.setattr(deleting, "PAGE", 2)
        backend = self.make_backend(folder)
        self._cleanup.callback(backend.close)
        self.world = World.make(backend)
        self.catalog: Catalog = self.world.opened()
        self.repo: Repository = self.catalog.repository(NAME)
        origin = self.repo.commit("main").id
        self.model = Model({"main": ModelBranch(origin, {})}, {}, {origin: {}})
        self.made = 0
        self.uploads: list[tuple[str, str, PhysicalAddress, bytes]] = []
        self.start()

    def close(self) -> None:
        """Give back the catalog's place, and what was patched."""
        self._cleanup.close()

    def make_backend(self, folder: Path) -> Backend:
        """Where the catalog lies."""
        return Backend("embedded", str(folder / "catalog"), None, FakeClock())

    def start(self) -> None:
        """Something to lose: two commits that main has, and two on a branch beside it."""
        for name in ("main", "side"):
            if name not in self.model.branches:
                self.branch_at(name, self.model.branches["main"].head)
            for number in range(2):
                model, branch = self.model.branches[name], self.repo.branch(name)
                for path in ("a", "c"):
                    model.files[path] = f"{name} {number} {path}".encode()
                    branch.put(path, model.files[path])
                self.commit_on(model, branch)

    def check(self) -> None:
        """What the model shows is what the catalog shows, through another instance."""
        with self.world.opened() as catalog:
            repo = catalog.repository(NAME)
            assert {ref.name for ref in repo.branches()} == set(self.model.branches)
            assert {ref.name: ref.commit for ref in repo.tags()} == self.model.tags
            for name, branch in self.model.branches.items():
                assert repo.commit(name).id == branch.head
                assert whole(repo, name) == branch.files
            for commit in self.world.reached(repo):
                assert whole(repo, commit) == self.model.commits[commit]

    # Picking.

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}-{self.made}"

    def pick(self, data: st.DataObject) -> tuple[str, ModelBranch, Branch]:
        name = data.draw(st.sampled_from(sorted(self.model.branches)), label="branch")
        return name, self.model.branches[name], self.repo.branch(name)

    def commit_to_use(self, data: st.DataObject) -> str:
        """A dead commit if there is one that can be named, or any that there ever was."""
        reached = self.world.reached(self.repo)
        states = commit_states(self.repo)
        dead = [
            commit
            for commit in self.model.commits
            if commit not in reached and states[commit] == CommitState.LIVE
        ]
        known = list(self.model.commits)
        at = data.draw(st.integers(0, 999), label="commit")
        return dead[at % len(dead)] if dead and at % 4 < 3 else known[at % len(known)]

    def try_with(self, commit: str, work: Callable[[], Any]) -> Any:
        """Do something with a commit; if it is refused as gone, nothing may have reached it."""
        try:
            return work()
        except LATE:
            assert commit not in self.world.reached(self.repo)
            return None

    # Writing.

    @rule(data=st.data(), path=PATHS, to=PATHS, content=BYTES, what=st.integers(0, 5))
    def edit(self, data: st.DataObject, path: str, to: str, content: bytes, what: int) -> None:
        name, model, branch = self.pick(data)
        if what == 0 and path in model.files:
            branch.delete(path)
            del model.files[path]
        elif what == 1 and path in model.files and path != to:
            branch.move(path, to)
            model.files[to] = model.files.pop(path)
        elif what == 2 and path in model.files:
            branch.copy(path, to)
            model.files[to] = model.files[path]
        elif what == 3:
            address = branch.get_physical_address(path)
            self.world.storage.put(address.address, content)
            self.uploads.append((name, path, address, content))
        else:
            branch.put(path, content)
            model.files[path] = content

    @precondition(lambda self: self.uploads)
    @rule(data=st.data())
    def link(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.uploads) - 1), label="upload")
        name, path, address, content = self.uploads.pop(at)
        if name not in self.model.branches:
            return
        try:
            self.repo.branch(name).link_physical_address(path, address)
        except TokenExpired:
            assert self.world.clock.now() >= address.expires_at
            return
        self.model.branches[name].files[path] = content

    @rule(data=st.data(), path=PATHS, content=BYTES)
    def put_and_commit(self, data: st.DataObject, path: str, content: bytes) -> None:
        _, model, branch = self.pick(data)
        branch.put(path, content)
        model.files[path] = content
        self.commit_on(model, branch)

    def commit_on(self, model: ModelBranch, branch: Branch) -> None:
        try:
            self.landed(model, branch.commit("commit").id)
        except NothingToCommit:
            assert model.files == self.model.commits[model.head]

    def landed(self, model: ModelBranch, commit: str) -> None:
        self.model.commits[commit] = dict(model.files)
        model.head = commit

    @rule(data=st.data())
    def commit_dies(self, data: st.DataObject) -> None:
        """A commit that leaves sealed changes and containers behind, and so does its instance."""

        def die(*_: object) -> Any:
            raise Died

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(committing, "land", die)
            try:
                self.pick(data)[2].commit("dies")
            except (Died, NothingToCommit):
                return
        raise AssertionError("it lived")

    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        _, model, branch = self.pick(data)
        self.commit_on(model, branch)
        undone = self.commit_to_use(data)
        try:
            commit = branch.revert(undone, parent=1)
        except (DirtyBranch, MergeConflict, NothingToCommit, InvalidInput, *LATE):
            return
        self.combined(model, commit)

    def combined(self, model: ModelBranch, commit: Any) -> None:
        """What a merge or a revert gives is for other tests; here it has to stay as it is."""
        if commit is not None:
            # Reading takes a lease, which is given back when the instance is closed.
            with self.world.opened() as catalog:
                model.files = whole(catalog.repository(NAME), commit.id)
            self.landed(model, commit.id)

    # What makes commits live, and what makes them dead.

    @rule(data=st.data(), what=st.integers(0, 6))
    def revive(self, data: st.DataObject, what: int) -> None:
        """Refer to a commit, in any of the ways there are."""
        commit = self.commit_to_use(data)
        if what == 0 and len(self.model.branches) < 4:
            self.branch_at(self.name("branch"), commit)
        elif what == 1 and len(self.model.tags) < 3:
            tag = self.name("tag")
            if self.try_with(commit, lambda: self.repo.create_tag(tag, commit)):
                self.model.tags[tag] = commit
        elif what == 2:
            name, _, branch = self.pick(data)
            if self.try_with(commit, lambda: branch.reset_to(commit)):
                self.model.branches[name] = ModelBranch(commit, dict(self.model.commits[commit]))
        elif what == 3:
            _, model, branch = self.pick(data)
            self.commit_on(model, branch)
            try:
                merged = self.try_with(commit, lambda: branch.merge(commit, prefer="source"))
            except (DirtyBranch, MergeConflict):
                return
            self.combined(model, merged)
        elif what == 4:
            self.copy_from(data, commit)
        elif what == 5:
            self.branch_that_goes(commit)
        else:
            length = data.draw(st.sampled_from([5, 60]), label="hours")
            self.lease(commit, timedelta(hours=length))

    def branch_at(self, name: str, commit: str) -> None:
        if self.try_with(commit, lambda: self.repo.create_branch(name, commit)):
            self.model.branches[name] = ModelBranch(commit, dict(self.model.commits[commit]))

    def copy_from(self, data: st.DataObject, commit: str) -> None:
        _, model, branch = self.pick(data)
        files = self.model.commits[commit]
        if not files:
            return
        path = min(files)
        if self.try_with(commit, lambda: branch.copy(path, "c", source_ref=commit)):
            model.files["c"] = files[path]

    def branch_that_goes(self, commit: str) -> None:
        name = self.name("branch")
        if self.try_with(commit, lambda: self.repo.create_branch(name, commit)):
            self.repo.branch(name).put("c", b"!")
            landed = self.repo.branch(name).commit("goes").id
            self.model.commits[landed] = self.model.commits[commit] | {"c": b"!"}
            self.repo.delete_branch(name)

    def lease(self, commit: str, length: timedelta) -> None:
        holder = self.name("holder")
        self.try_with(commit, lambda: self.repo.take_lease(commit, holder=holder, length=length))

    @rule(data=st.data(), what=st.integers(0, 4))
    def forget(self, data: st.DataObject, what: int) -> None:
        """Stop referring to something."""
        name, model, branch = self.pick(data)
        held = [one.id for one, _ in self.repo.leases() if one.holder.startswith("holder-")]
        if what == 0:
            branch.reset()
            model.files = dict(self.model.commits[model.head])
        elif what == 1 and self.model.tags:
            tag = min(self.model.tags)
            self.repo.delete_tag(tag)
            del self.model.tags[tag]
        elif what == 2 and held:
            self.repo.release_lease(min(held))
        elif name != "main":
            self.repo.delete_branch(name)
            del self.model.branches[name]
        else:
            parents = self.repo.commit(model.head).parents
            if parents:
                branch.reset_to(parents[0])
                files = dict(self.model.commits[parents[0]])
                self.model.branches[name] = ModelBranch(parents[0], files)

    @rule(options=POLICIES)
    def expire(self, options: dict[str, Any]) -> None:
        if not options:
            self.repo.clean()
            return
        try:
            expiring.expire(self.repo, from_options(**options))
        except TransactionFailed as error:
            # A run that died holds what it has marked until the next one begins.
            if "being removed" not in str(error) and "changed since" not in str(error):
                raise
        except Conflict as error:
            # A run that died holds the lock until it is free.
            if "is working" not in str(error):
                raise

    @rule(by=TIMES, close=st.booleans())
    def wait(self, by: timedelta, close: bool) -> None:
        if close:
            self.reopen()
        self.world.clock.advance(by)

    def reopen(self, wrap: WrapStorage | None = None) -> None:
        self.catalog.close()
        self.catalog = self.world.opened(wrap)
        self.repo = self.catalog.repository(NAME)

"""Everything together: a state machine that holds the catalog to a model of plain dictionaries.

The model knows what each branch shows, what each commit holds and what was never committed. After
every step the catalog must show the same, and no address that anything refers to may be condemned
in the ledger.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
)

from reclaim.catalog import Catalog, Repository, Side
from reclaim.catalog.content import ranges
from reclaim.catalog.database.schema import LedgerState
from reclaim.catalog.refs import committing
from reclaim.errors import DirtyBranch, MergeConflict, NotFound, NothingToCommit
from reclaim.testing import ClockedStorage, FakeClock
from tests.catalog import raw
from tests.support.soak import SOAK

PATHS = st.sampled_from(["a", "a/b", "b/x/y", "é"])
BYTES = st.binary(min_size=0, max_size=3)
Files = dict[str, bytes]


@dataclass
class ModelBranch:
    """A branch of the model: where it stands, and what it shows."""

    head: str
    files: Files
    dirty: bool = False


@dataclass
class Model:
    branches: dict[str, ModelBranch] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)


class CatalogMachine(RuleBasedStateMachine):
    commits = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        # Ranges of two entries or so, so that small histories have many of them.
        self.patch.setattr(ranges, "TARGET_ROWS", 2)
        self.clock = FakeClock()
        self.catalog = self.open(Catalog.init)
        self.repo: Repository = self.catalog.create_repository("model")
        origin = self.repo.commit("main").id
        self.model = Model({"main": ModelBranch(origin, {})}, {origin: {}})
        self.made = 0
        self.create_branch_at("main")

    def open(self, how: Callable[..., Catalog]) -> Catalog:
        return how(
            Path(self.folder.name) / "catalog",
            clock=self.clock,
            wrap_storage=lambda storage: ClockedStorage(storage, self.clock),
        )

    def teardown(self) -> None:
        self.catalog.close()
        self.patch.undo()
        self.folder.cleanup()

    def pick(self, data: st.DataObject) -> tuple[str, ModelBranch]:
        name = data.draw(st.sampled_from(sorted(self.model.branches)), label="branch")
        return name, self.model.branches[name]

    @rule(data=st.data(), path=PATHS, content=BYTES)
    def put(self, data: st.DataObject, path: str, content: bytes) -> None:
        name, branch = self.pick(data)
        self.repo.branch(name).put(path, content)
        branch.files[path] = content
        branch.dirty = True

    @rule(data=st.data(), path=PATHS)
    def link(self, data: st.DataObject, path: str) -> None:
        name, branch = self.pick(data)
        # Nobody knows a checksum of it, so two of them never count as the same content.
        self.made += 1
        content = f"linked {self.made}".encode()
        address = self.repo.branch(name).get_physical_address(path)
        self.repo._workspace.storage.put(address.address, content)
        self.repo.branch(name).link_physical_address(path, address)
        branch.files[path] = content
        branch.dirty = True

    @rule(data=st.data(), path=PATHS)
    def delete(self, data: st.DataObject, path: str) -> None:
        name, branch = self.pick(data)
        if path not in branch.files:
            with pytest.raises(NotFound):
                self.repo.branch(name).delete(path)
            return
        self.repo.branch(name).delete(path)
        del branch.files[path]
        branch.dirty = True

    @rule(data=st.data(), source=PATHS, to=PATHS)
    def move(self, data: st.DataObject, source: str, to: str) -> None:
        name, branch = self.pick(data)
        if source not in branch.files or source == to:
            return
        self.repo.branch(name).move(source, to)
        branch.files[to] = branch.files.pop(source)
        branch.dirty = True

    @rule(data=st.data(), source=PATHS, to=PATHS)
    def copy(self, data: st.DataObject, source: str, to: str) -> None:
        name, branch = self.pick(data)
        other, origin = self.pick(data)
        if source not in origin.files:
            return
        self.repo.branch(name).copy(source, to, source_ref=other)
        branch.files[to] = origin.files[source]
        branch.dirty = True

    @rule(data=st.data(), commit=commits, path=PATHS)
    def copy_from_history(self, data: st.DataObject, commit: str, path: str) -> None:
        name, branch = self.pick(data)
        files = self.model.commits[commit]
        if path in files:
            self.repo.branch(name).copy(path, path, source_ref=commit)
            branch.files[path] = files[path]
            branch.dirty = True

    @rule(target=commits, data=st.data(), minutes=st.integers(0, 3))
    def commit(self, data: st.DataObject, minutes: int) -> Any:
        self.clock.advance(minutes=minutes)
        return self.commit_on(*self.pick(data))

    @rule(target=commits, data=st.data(), path=PATHS, content=BYTES)
    def put_and_commit(self, data: st.DataObject, path: str, content: bytes) -> Any:
        name, branch = self.pick(data)
        self.repo.branch(name).put(path, content)
        branch.files[path] = content
        return self.commit_on(name, branch)

    def commit_on(self, name: str, branch: ModelBranch) -> Any:
        try:
            landed = self.repo.branch(name).commit("commit").id
        except NothingToCommit:
            # Changes that cancelled out: the branch shows what its head holds.
            assert branch.files == self.model.commits[branch.head]
            branch.dirty = False
            return multiple()
        self.model.commits[landed] = dict(branch.files)
        branch.head = landed
        branch.dirty = False
        return landed

    @rule(data=st.data())
    def commit_crashes(self, data: st.DataObject) -> None:
        name, branch = self.pick(data)
        if not branch.dirty:
            return

        def crash(*_: object) -> Any:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(committing, "land", crash)
            try:
                self.repo.branch(name).commit("crashes")
            except (KeyboardInterrupt, NothingToCommit):
                return
        raise AssertionError("the crash did not happen")

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        self.catalog.close()
        self.catalog = self.open(Catalog.open)
        self.repo = self.catalog.repository("model")

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        name, branch = self.pick(data)
        self.repo.branch(name).reset()
        branch.files = dict(self.model.commits[branch.head])
        branch.dirty = False

    @rule(data=st.data(), prefix=st.sampled_from(["a", "a/", "b", "d"]))
    def reset_prefix(self, data: st.DataObject, prefix: str) -> None:
        name, branch = self.pick(data)
        self.repo.branch(name).reset_prefix(prefix)
        committed = self.model.commits[branch.head]
        kept = {p: b for p, b in branch.files.items() if not p.startswith(prefix)}
        branch.files = kept | {p: b for p, b in committed.items() if p.startswith(prefix)}

    @rule(data=st.data(), commit=commits)
    def reset_to(self, data: st.DataObject, commit: str) -> None:
        name, _ = self.pick(data)
        self.repo.branch(name).reset_to(commit)
        self.model.branches[name] = ModelBranch(commit, dict(self.model.commits[commit]))

    @precondition(lambda self: len(self.model.branches) < 4)
    @rule(data=st.data())
    def create_branch(self, data: st.DataObject) -> None:
        self.create_branch_at(self.pick(data)[0])

    def create_branch_at(self, origin: str) -> None:
        source = self.model.branches[origin]
        self.made += 1
        name = f"branch-{self.made}"
        self.repo.create_branch(name, source.head)
        self.model.branches[name] = ModelBranch(source.head, dict(self.model.commits[source.head]))

    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        name, _ = self.pick(data)
        if name != "main":
            self.repo.delete_branch(name)
            del self.model.branches[name]

    @rule(target=commits, data=st.data(), prefer=st.sampled_from([None, *Side]))
    def merge(self, data: st.DataObject, prefer: Side | None) -> Any:
        name, branch = self.pick(data)
        other, source = self.pick(data)
        if data.draw(st.booleans(), label="commit first"):
            self.commit_on(name, branch)
            self.commit_on(other, source)
        base = self.repo.merge_base(branch.head, source.head)
        assert base is not None
        try:
            landed = self.repo.branch(name).merge(source.head, prefer=prefer).id
        except DirtyBranch:
            assert branch.dirty
            return multiple()
        except MergeConflict:
            assert prefer is None
            assert self.three_way(base.id, source.head, branch.head, None) is None
            return multiple()
        merged = self.three_way(base.id, source.head, branch.head, prefer)
        assert merged is not None
        self.model.commits[landed] = merged
        self.model.branches[name] = ModelBranch(landed, dict(merged))
        return landed

    @rule(target=commits, data=st.data(), commit=commits)
    def revert(self, data: st.DataObject, commit: str) -> Any:
        name, branch = self.pick(data)
        parents = self.repo.commit(commit).parents
        if not parents:
            return multiple()
        merged = self.three_way(commit, parents[0], branch.head, None)
        try:
            landed = self.repo.branch(name).revert(commit, parent=1).id
        except DirtyBranch:
            assert branch.dirty
            return multiple()
        except MergeConflict:
            assert merged is None
            return multiple()
        except NothingToCommit:
            assert merged == self.model.commits[branch.head]
            return multiple()
        assert merged is not None
        self.model.commits[landed] = merged
        self.model.branches[name] = ModelBranch(landed, dict(merged))
        return landed

    def three_way(self, base: str, source: str, target: str, prefer: Side | None) -> Files | None:
        """The merge of three commits of the model; None is a conflict."""
        b, s, t = (self.model.commits[commit] for commit in (base, source, target))
        merged = dict(t)
        for path in b.keys() | s.keys() | t.keys():
            theirs, ours = s.get(path), t.get(path)
            if theirs == b.get(path) or theirs == ours:
                continue
            if ours != b.get(path):
                if prefer is None:
                    return None
                if prefer is Side.TARGET:
                    continue
            merged.pop(path, None)
            if theirs is not None:
                merged[path] = theirs
        return merged

    @rule()
    def clean(self) -> None:
        self.repo.clean()

    @invariant()
    def branches_show_what_the_model_shows(self) -> None:
        live: set[str] = set()
        for name, branch in self.model.branches.items():
            reader = self.repo.branch(name)
            entries = list(reader.entries())
            assert {e.path: reader.get(e.path) for e in entries} == branch.files
            assert [e.path for e in entries] == sorted(branch.files)
            assert self.repo.commit(name).id == branch.head
            live |= {entry.address for entry in entries}
        condemned = {
            address
            for address, state in raw.ledger_states(self.repo).items()
            if state == LedgerState.CONDEMNED
        }
        assert not condemned & live

    def check_history(self) -> None:
        for commit, files in self.model.commits.items():
            reader = self.repo.at(commit)
            assert {e.path: reader.get(e.path) for e in reader.entries()} == files


class CheckedCatalogMachine(CatalogMachine):
    """Reads all commits back at the end; they must be as they were written."""

    def teardown(self) -> None:
        try:
            self.check_history()
            self.repo.clean()
            condemned = {
                address
                for address, state in raw.ledger_states(self.repo).items()
                if state == LedgerState.CONDEMNED
            }
            held = {e.address for c in self.model.commits for e in self.repo.at(c).entries()}
            assert not condemned & held
        finally:
            super().teardown()


TestCatalogMachine = CheckedCatalogMachine.TestCase
TestCatalogMachine.settings = settings(
    settings.default, max_examples=2_000 if SOAK else 8, stateful_step_count=40
)

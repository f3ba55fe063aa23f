"""Rules that the library cannot be asked for: our own edit of repo, in spec 2 alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import Conflict, Refused
from reclaim.model import SnapshotId
from reclaim.policy import Duration, Match, Policy, Rules
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.expire.released import find_hold
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.run_record import Phase, RunRecord
from reclaim.safety import SAFETY
from reclaim.storage import ObjectStorage
from reclaim.stores.abilities import EditsHistory
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.urls import normalize
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository
from tests.icechunk.samples import extract
from tests.icechunk.test_apply import Died, DiesAfterSwap, contents
from tests.icechunk.trees import SampleTree
from tests.icechunk.world import plan
from tests.support.expiring import apply_expire, decide, expire, plan_expire

LAST = Policy(Rules(keep_last=2))
WINDOW = timedelta(days=7)

spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


@pytest.fixture
def tree(tmp_path: Path) -> SampleTree:
    if NEWEST_SPEC < 2:
        pytest.skip("the installed library writes spec 1 only")
    return SampleTree(WrittenRepository.create(tmp_path / "repository", 2))


def open_store(tree: SampleTree) -> IcechunkStore:
    return IcechunkStore(str(tree.written.folder))


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (LAST, "keep_last 2"),
        (Policy(Rules(older_than=Duration.parse("1d"), keep_daily=3)), "keep_daily 3"),
        (
            Policy(Rules(), ((Match("main"), Rules(older_than=Duration.parse("1d"))),)),
            "rules by ref",
        ),
    ],
    ids=["keep last", "two rules", "by ref"],
)
def test_spec_1_refuses_them(tmp_path: Path, policy: Policy, named: str) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    written.write(1)
    refusals: tuple[Callable[[], object], ...] = (
        lambda: plan(written, policy=policy),
        lambda: plan_expire(IcechunkStore(str(written.folder)), policy),
    )
    for refused in refusals:
        with pytest.raises(Refused, match=named) as error:
            refused()
        assert "older_than" in (error.value.hint or "")


def test_the_last_two_of_each(tree: SampleTree) -> None:
    written, store = tree.written, open_store(tree)
    before = contents(written)
    planned = plan_expire(store, LAST)
    assert planned.document.library_edit is None
    run = apply_expire(store, planned)
    assert run is not None
    assert tree.lines() == {
        "main": [14, 13, 5, 4, 2, 0],
        "develop": [11, 10, 3, 2, 0],
        "test": [9, 7, 3, 2, 0],
        "qa": [8, 7, 3, 2, 0],
        "tag1": [3, 2, 0],
        "tag2": [5, 4, 2, 0],
    }
    kept = {number for line in tree.lines().values() for number in line}
    assert kept == {0, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14}
    apply_plan(store, LocalEngine(), plan(written).place, removal=DELETE)
    assert tree.files() == kept
    after = written.reopened()
    assert contents(after) == before
    log = after.repository.inspect_repo_info()["latest_updates"]
    assert [one["update_type"]["type"] for one in log[:2]] == [
        "GCRanUpdate",
        "ExpirationRanUpdate",
    ]


def test_logs_of_what_is_passed_over_are_kept(tree: SampleTree) -> None:
    """As the library has them, so that it can still tell what changed from one to the next."""
    written, store = tree.written, open_store(tree)
    differences = _differences(tree)
    expire(store, LAST)
    repo = decode_repo((written.folder / "repo").read_bytes(), "repo")
    pruned = {tree.number(info.id): list(map(tree.number, info.pruned)) for info in repo.snapshots}
    assert {number: logs for number, logs in pruned.items() if logs} == {
        2: [1],
        10: [6],
        7: [6],
        13: [12],
    }
    made = plan(written)
    apply_plan(store, LocalEngine(), made.place, removal=DELETE)
    assert _differences(tree) == differences


def _differences(tree: SampleTree) -> Any:
    """What the library says that changed from the third snapshot to the tip of a branch."""
    repository = tree.written.reopened().repository
    changed = repository.diff(from_snapshot_id=tree.ids[3], to_branch="develop")
    return changed.updated_chunks


def test_one_run_edits_and_collects_and_comes_back(tree: SampleTree) -> None:
    written, store = tree.written, open_store(tree)
    lines, files = tree.lines(), written.objects()
    made = plan(written, policy=LAST, delete_expired_tags=True)
    done = apply_plan(store, LocalEngine(), made.place, removal=MoveToQuarantine(WINDOW))
    assert (done.dropped, done.failed) == (0, 0)
    assert tree.files() == {0, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14}
    undone = undo_run(store, LocalEngine(), done.run)
    assert not undone.left
    assert (tree.lines(), written.objects()) == (lines, files)


def test_a_run_that_stops_takes_its_edit_back(tree: SampleTree) -> None:
    class Stopped(Exception):
        """The run ends here."""

    def step(name: str) -> None:
        if name == "confirm":
            raise Stopped

    written, store, lines = tree.written, open_store(tree), tree.lines()
    made = plan(written, policy=LAST)
    with pytest.raises(Stopped):
        apply_plan(store, LocalEngine(step=step), made.place, removal=DELETE)
    assert tree.lines() == lines
    assert [run.phase for run in store.runs()] == [Phase.STOPPED]
    apply_plan(store, LocalEngine(), made.place, removal=DELETE)
    assert tree.files() == {0, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14}


def test_the_edit_of_a_run_that_died_is_taken_back(tree: SampleTree) -> None:
    written, lines = tree.written, tree.lines()
    folder = normalize(str(written.folder.parent))
    dying = IcechunkStore(str(written.folder), storage=DiesAfterSwap(ObjectStorage.open(folder)))
    edit = decide(dying, LAST).decided.edit
    with dying.lock("1") as held:
        assert isinstance(held, EditsHistory)
        held.begin()
        held.start(RunRecord("1", "collect", Phase.STARTED, dying.clock.now()))
        with pytest.raises(Died):
            held.edit_history(edit.reparent, edit.delete_refs, held.read_history())
    assert tree.lines() != lines
    store = open_store(tree)
    with pytest.raises(Conflict, match="may still revert the edit"):
        plan(written, policy=LAST)
    with store.lock("next") as held:
        held.begin()
    assert tree.lines() == lines
    assert {run.phase for run in store.runs()} == {Phase.STOPPED}
    expire(store, LAST)
    assert tree.lines() != lines


def test_what_a_lease_held_is_promised_for_the_window(tree: SampleTree) -> None:
    """Another run leaves it, when the lease is over, to whoever undoes the first."""
    written, store = tree.written, open_store(tree)
    lines = tree.lines()
    lease = store.take_lease(tree.ids[12], holder="reader", length=timedelta(hours=2))
    made = plan(written, policy=LAST)
    run = apply_plan(store, LocalEngine(), made.place, removal=MoveToQuarantine(WINDOW)).run
    store.release_lease(lease.id)
    apply_plan(store, LocalEngine(), plan(written).place, removal=DELETE)
    assert 12 in tree.files()
    undo_run(store, LocalEngine(), run)
    assert tree.lines() == lines


def test_a_branch_that_is_made_after_the_plan(tree: SampleTree) -> None:
    written, store = tree.written, open_store(tree)
    planned = plan_expire(store, LAST)
    written.repository.create_tag("late", tree.ids[12])
    apply_expire(store, planned)
    assert tree.lines()["late"][0] == 12


def test_some_refs_alone(tree: SampleTree) -> None:
    """The library edits all of them, so that this is our edit even by age."""
    store, lines = open_store(tree), tree.lines()
    planned = plan_expire(store, Policy(Rules(older_than=tree.bound)), refs=["qa"])
    assert planned.document.library_edit is None
    apply_expire(store, planned)
    assert tree.lines() == lines | {"qa": [8, 0]}


def test_a_sample_whatever_the_library(tmp_path: Path) -> None:
    """Python 3.11 gets a library that cannot open spec 2."""
    written = extract("buried", tmp_path)
    store = IcechunkStore(str(written.folder))
    before = store.current_history()
    run = expire(store, Policy(Rules(keep_last=1)))
    assert run is not None
    [main] = store.current_history().refs
    parents = {one.id: one.parents for one in store.current_history().snapshots}
    assert parents[main.snapshot] == (SnapshotId("1CECHNKREP0F1RSTCMT0"),)
    undo_run(store, LocalEngine(), run.id)
    assert set(store.current_history().snapshots) == set(before.snapshots)


@pytest.mark.parametrize("way", ["expire", "in quarantine"])
def test_the_same_rules_leave_what_an_undo_brought_back(tree: SampleTree, way: str) -> None:
    store, lines = open_store(tree), tree.lines()
    if way == "expire":
        done = expire(store, LAST)
        assert done is not None
        run, window = done.id, SAFETY.quarantine
    else:
        removal = MoveToQuarantine(keep=timedelta(days=30))
        made = plan(tree.written, policy=LAST)
        run = apply_plan(store, LocalEngine(), made.place, removal=removal).run
        window = timedelta(days=30)
    assert tree.lines() != lines
    undo_run(store, LocalEngine(), run)
    end = find_hold(store, run)
    assert end is not None
    assert abs(end - store.clock.now() - window) < timedelta(hours=1)
    assert not plan_expire(store, LAST).document.edits_history
    again = plan(tree.written, policy=LAST)
    assert {holder.run for holder in again.document.held_by} == {run}
    apply_plan(store, LocalEngine(), again.place, removal=DELETE)
    assert tree.lines() == lines
    for lease, _ in store.leases():
        store.release_lease(lease.id)
    assert plan_expire(store, LAST).document.edits_history

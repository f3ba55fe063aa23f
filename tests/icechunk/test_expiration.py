"""Expiring snapshots by age: the library edits, as was predicted, and what it released goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import icechunk
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.history import Edit, build
from reclaim.model import SnapshotId
from reclaim.policy import Policy, Rules
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import undo_run
from reclaim.run_record import Phase
from reclaim.stores.abilities import Expiration
from reclaim.stores.icechunk import library
from reclaim.stores.icechunk.expiration import predict_edit
from reclaim.stores.icechunk.store import IcechunkStore
from tests.icechunk.repositories import FIRST, NEWEST_SPEC, WrittenRepository
from tests.icechunk.test_apply import contents, told
from tests.icechunk.trees import EXPIRED, SampleTree
from tests.icechunk.world import build_randomly, candidates, copied, plan
from tests.support import expiring
from tests.support.expiring import apply_expire, decide, plan_expire

pytestmark = pytest.mark.repeats(first=4)

WINDOW = timedelta(days=7)
HELD = "reclaim.stores.icechunk.held"
LINES = {
    1: {
        "main": [14, 13, 12, 0],
        "develop": [11, 10, 0],
        "test": [9, 0],
        "qa": [8, 0],
        "tag1": [3, 0],
        "tag2": [5, 0],
    },
}
LINES[2] = {**LINES[1], "main": [14, 13, 12, 5, 0]}
"""What each ref reaches of the sample tree afterwards. In spec 2 the tip of a tag stays where it
is in the history of a branch."""
FLAGS: tuple[dict[str, Any], ...] = (
    {},
    {"delete_expired_tags": True},
    {"delete_expired_branches": True},
    {"delete_expired_tags": True, "delete_expired_branches": True},
)

spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


def aged(bound: datetime) -> Policy:
    return Policy(Rules(older_than=bound))


def open_store(written: WrittenRepository) -> IcechunkStore:
    return IcechunkStore(str(written.folder))


def apply(written: WrittenRepository, made: WrittenPlan, removal: Removal = DELETE) -> Applied:
    return apply_plan(open_store(written), LocalEngine(), made.place, removal=removal)


def history_of(written: WrittenRepository) -> Any:
    seen = open_store(written).current_history()
    return build(seen.snapshots, seen.refs)


def predicted(written: WrittenRepository, spec: int, asked: Expiration) -> Edit:
    return predict_edit(history_of(written), asked, spec=spec)


def test_the_sample_tree(written: WrittenRepository, spec: int) -> None:
    tree = SampleTree(written)
    before = contents(written)
    store = open_store(written)
    released = decide(store, aged(tree.bound)).decided.released()
    assert set(map(tree.number, released)) == {1, 2, 4, 6, 7}
    run = expiring.expire(store, aged(tree.bound))
    assert run is not None
    assert (run.phase, run.edit.counts.released) == (Phase.DONE, 5)
    assert tree.lines() == LINES[spec]
    assert tree.files() == set(range(15))
    apply(written, plan(written))
    assert tree.files() == {0, 3, 5, *range(8, 15)}
    assert tree.lines() == LINES[spec]
    assert contents(written.reopened()) == before


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_one_plan_expires_and_collects(
    written: WrittenRepository, spec: int, flags: dict[str, Any]
) -> None:
    tree = SampleTree(written)
    with copied(written) as copy:
        copy.repository.expire_snapshots(tree.bound, **flags)
        made = plan(written, policy=aged(tree.bound), **flags)
        done = apply(written, made)
        assert (done.unplanned, done.failed) == (0, 0)
        # In spec 1 the library writes the snapshot of a tag anew before it deletes the tag, so
        # that it is young.
        rewritten = {3, 5} if spec == 1 and "delete_expired_tags" in flags else set()
        assert done.spared == len(rewritten)
        if not rewritten:
            assert done.dropped == 0
        written.age()
        apply(written, plan(written))
        tips = set() if "delete_expired_tags" in flags else {3, 5}
        assert tree.files() == {0, *tips, *range(8, 15)}
        copy.age()
        copy.repository.garbage_collect(datetime.now(UTC) - timedelta(days=1))
        assert written.objects() == copy.objects()
        ours, theirs = written.reopened(), copy.reopened()
        assert contents(ours) == contents(theirs)
        if spec == 2:
            assert told(ours) == told(theirs)


@spec_2
def test_the_log_says_what_the_library_would(tmp_path: Path) -> None:
    tree = SampleTree(WrittenRepository.create(tmp_path / "repository", 2))
    written = tree.written
    with copied(written) as copy:
        copy.repository.expire_snapshots(tree.bound)
        copy.repository.garbage_collect(datetime.now(UTC) - timedelta(days=1))
        apply(written, plan(written, policy=aged(tree.bound)))
        logs = [
            [update["update_type"]["type"] for update in one.inspect_repo_info()["latest_updates"]]
            for one in (written.reopened().repository, copy.reopened().repository)
        ]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_library_does_what_is_predicted(
    written: WrittenRepository, spec: int, seed: int
) -> None:
    generator = Random(seed)
    build_randomly(written, generator)
    times = sorted(one.written_at for one in history_of(written).snapshots)
    flags = FLAGS[seed]
    asked = Expiration(aged(times[2 * len(times) // 3]), times[-1], **flags)
    edit = predicted(written, spec, asked)
    before = history_of(written)
    written.reopened().repository.expire_snapshots(times[2 * len(times) // 3], **flags)
    after = history_of(written)
    assert set(after.refs) == set(before.refs) - set(edit.delete_refs)
    parents = {one.id: one.parents for one in before.snapshots} | dict(edit.reparent)
    reached = {one.id: one.parents for one in after.snapshots if one.id not in edit.unreachable}
    assert reached == {one: parents[one] for one in reached}
    assert before.numbers.keys() - set(edit.unreachable) == reached.keys()


def test_what_is_at_the_first_snapshot(written: WrittenRepository, spec: int) -> None:
    """Refs there are never deleted in spec 2, and like any other in spec 1."""
    tree = SampleTree(written)
    written.repository.create_tag("first", FIRST)
    written.branch("empty", FIRST)
    made = plan(written, policy=aged(tree.bound), **FLAGS[3])
    more = {"first", "empty"} if spec == 1 else set()
    assert set(made.document.deleted_refs) == {"tag1", "tag2"} | more
    apply(written, made)
    assert tree.lines().keys() == {"main", "develop", "test", "qa", "first", "empty"} - more


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine(WINDOW)], ids=["delete", "aside"])
def test_a_lease_holds_what_expires(
    written: WrittenRepository, spec: int, removal: Removal
) -> None:
    tree = SampleTree(written)
    store, lines = open_store(written), tree.lines()
    held = tree.ids[4]
    store.take_lease(held, holder="reader", length=timedelta(hours=2))
    made = plan(written, policy=aged(tree.bound))
    done = apply(written, made, removal)
    assert done.unplanned == 0
    # Whoever holds it can use it, with what stands below it.
    after = written.reopened().repository
    assert [tree.number(one.id) for one in after.ancestry(snapshot_id=held)] == [4, 2, 1, 0]
    assert tree.files() == {0, 1, 2, 3, 4, 5, *range(8, 15)}
    assert tree.lines()["main"][:3] == [14, 13, 12]
    if removal is not DELETE:
        undo_run(store, LocalEngine(), done.run)
        assert tree.files() == set(range(15))
        assert spec == 1 or tree.lines() == lines


def test_undo_brings_back_what_expired(written: WrittenRepository, spec: int) -> None:
    tree = SampleTree(written)
    lines, files = tree.lines(), written.objects()
    before = history_of(written)
    made = plan(written, policy=aged(tree.bound), delete_expired_tags=True)
    run = apply(written, made, MoveToQuarantine(WINDOW)).run
    assert "tag1" not in tree.lines()
    done = undo_run(open_store(written), LocalEngine(), run)
    assert written.objects() == files
    after = written.reopened()
    for number in EXPIRED:
        after.branch(f"back{number}", tree.ids[number])
        after.repository.delete_branch(f"back{number}")
    if spec == 1:
        assert "create a branch or a tag there" in done.left[0]
        assert "tag1" not in tree.lines()
        return
    assert not done.left
    assert tree.lines() == lines
    again = history_of(written)
    assert {one.id: one.parents for one in again.snapshots} == {
        one.id: one.parents for one in before.snapshots
    }
    assert again.refs == before.refs
    # The name of a tag that was deleted for good cannot be used again; this one was not.
    after = written.reopened()
    after.repository.delete_tag("tag1")


def test_an_expiration_can_be_undone_in_spec_2(written: WrittenRepository, spec: int) -> None:
    tree = SampleTree(written)
    lines, store = tree.lines(), open_store(written)
    run = expiring.expire(store, aged(tree.bound), **FLAGS[3])
    assert run is not None
    if spec == 1:
        with pytest.raises(Refused, match="cannot be reverted"):
            undo_run(store, LocalEngine(), run.id)
        return
    undo_run(store, LocalEngine(), run.id)
    assert tree.lines() == lines
    found = store.find_run(run.id)
    assert found is not None
    assert found.phase == Phase.UNDONE


@spec_2
def test_what_somebody_else_dropped_cannot_be_taken_back(tmp_path: Path) -> None:
    """The library drops from repo what nothing reaches when it is asked by somebody else."""
    tree = SampleTree(WrittenRepository.create(tmp_path / "repository", 2))
    written, store = tree.written, open_store(tree.written)
    run = expiring.expire(store, aged(tree.bound))
    assert run is not None
    after = written.reopened()
    bound = next(after.repository.ancestry(snapshot_id=tree.ids[14])).written_at
    after.repository.expire_snapshots(bound)
    lines = tree.lines()
    with pytest.raises(Refused, match="cannot be reverted"):
        undo_run(store, LocalEngine(), run.id)
    assert tree.lines() == lines
    found = store.find_run(run.id)
    assert found is not None
    assert found.phase == Phase.DONE


def fails_with(error: Exception, after: bool) -> Callable[..., None]:
    real = library.expire_snapshots

    def failing(*given: Any, **flags: Any) -> None:
        if after:
            real(*given, **flags)
        raise error

    return failing


@pytest.mark.parametrize("after", [False, True], ids=["before it edits", "after it has edited"])
def test_a_library_that_fails(
    written: WrittenRepository, spec: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is deleted, and the run can be applied again."""
    tree = SampleTree(written)
    made = plan(written, policy=aged(tree.bound))
    with monkeypatch.context() as patch:
        patch.setattr(f"{HELD}.expire_snapshots", fails_with(Partial("no answer"), after))
        with pytest.raises(Exception, match="no answer"):
            apply(written, made, MoveToQuarantine(WINDOW))
    assert tree.files() == set(range(15))
    # Nobody else takes what it may have released.
    apply(written, plan(written))
    assert tree.files() == set(range(15))
    assert all(map(open_store(written)._observer.is_there, map(SnapshotId, tree.ids.values())))
    apply(written, made, MoveToQuarantine(WINDOW))
    assert tree.files() == {0, 3, 5, *range(8, 15)}
    assert tree.lines() == LINES[spec]


def test_a_run_whose_library_failed_can_be_undone(
    written: WrittenRepository, spec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = SampleTree(written)
    lines = tree.lines()
    made = plan(written, policy=aged(tree.bound))
    with monkeypatch.context() as patch:
        patch.setattr(f"{HELD}.expire_snapshots", fails_with(Partial("no answer"), True))
        with pytest.raises(Exception, match="no answer"):
            apply(written, made, MoveToQuarantine(WINDOW))
    store = open_store(written)
    done = undo_run(store, LocalEngine(), made.document.run)
    if spec == 2:
        assert tree.lines() == lines
    else:
        assert "leases hold" in done.left[0]
    # What came back stays for the window, also if somebody collects.
    apply(written, plan(written))
    assert tree.files() == set(range(15))


def test_a_branch_that_goes_right_before_the_library_is_asked(
    written: WrittenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It edits further than anybody has reviewed; nothing of that is deleted or out of use."""
    tree = SampleTree(written)
    made = plan(written, policy=aged(tree.bound))
    real = library.expire_snapshots

    def expire(*given: Any, **flags: Any) -> None:
        written.reopened().repository.delete_tag("tag2")
        real(*given, **flags)

    monkeypatch.setattr(f"{HELD}.expire_snapshots", expire)
    done = apply(written, made)
    assert done.unplanned == 1
    assert {5, 4, 2, 1} <= tree.files()
    written.reopened().branch("back", tree.ids[5])
    assert tree.lines()["back"][0] == 5


def test_a_tag_that_is_made_after_the_plan(written: WrittenRepository) -> None:
    tree = SampleTree(written)
    made = plan(written, policy=aged(tree.bound))
    written.repository.create_tag("late", tree.ids[7])
    apply(written, made)
    assert 7 in tree.files()
    assert tree.lines()["late"][0] == 7
    late = plan(written, policy=aged(tree.bound), delete_expired_tags=True)
    written.repository.create_tag("later", tree.ids[7])
    with pytest.raises(PlanRefused, match="would remove unplanned"):
        apply(written, late)


def test_without_the_library(written: WrittenRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = SampleTree(written)
    made = plan(written, policy=aged(tree.bound))
    monkeypatch.setitem(sys.modules, "icechunk", None)
    for refused in (
        lambda: plan(written, policy=aged(tree.bound)),
        lambda: apply(written, made, MoveToQuarantine(WINDOW)),
        lambda: plan_expire(open_store(written), aged(tree.bound)),
    ):
        with pytest.raises(Refused, match="is not installed") as error:
            refused()
        assert "pip install 'reclaim[icechunk]'" in (error.value.hint or "")
    store = open_store(written)
    assert [run.phase for run in store.runs()] == [Phase.STOPPED]
    # Without rules nothing of it is needed.
    apply(written, plan(written))


def test_a_history_that_the_library_cannot_expire(tmp_path: Path) -> None:
    """In spec 1 the library gives up if the first snapshot is not the oldest."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    tree = SampleTree(written)
    history = history_of(written)
    late = {one.id: one for one in history.snapshots}[SnapshotId(tree.ids[14])].written_at
    asked = Expiration(aged(tree.bound), late)
    snapshots = [
        type(one)(one.id, one.parents, late if one.id == FIRST else one.written_at)
        for one in history.snapshots
    ]
    with pytest.raises(Refused, match="younger than some"):
        predict_edit(build(snapshots, history.refs), asked, spec=1)


def test_a_panic_is_told_in_our_words(
    written: WrittenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """As a library in Rust raises it."""

    def panic(*_given: Any, **_flags: Any) -> None:
        raise PanicException("assertion failed")

    tree = SampleTree(written)
    store = open_store(written)
    planned = plan_expire(store, aged(tree.bound))
    monkeypatch.setattr(icechunk.Repository, "expire_snapshots", panic)
    # Nobody knows what the library has done by then.
    with pytest.raises(Partial, match="could not expire snapshots"):
        apply_expire(store, planned)
    assert [run.phase for run in store.runs()] == [Phase.STOPPED]
    assert tree.lines()["main"][:4] == [14, 13, 12, 5]


def test_a_plan_names_no_log_that_is_needed(written: WrittenRepository, spec: int) -> None:
    tree = SampleTree(written)
    logs = candidates(plan(written, policy=aged(tree.bound)))["transactions"]
    expected = {1, 2, 4, 6, 7} if spec == 1 else set()
    assert set(map(tree.number, logs)) == expected

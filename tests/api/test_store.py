"""Plan, apply, undo and purge from Python, on a repository of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest

import reclaim
from reclaim.catalog import Catalog
from reclaim.errors import Gone, InvalidInput, LeaseLapsed, NotFound, PlanRefused, Refused, TooMuch
from reclaim.run_record import Phase


def make_plan(store: reclaim.OpenStore, keep_last: int = 1) -> reclaim.Plan:
    policy = reclaim.Policy(keep_last=keep_last)
    return store.plan(policy, min_age="0s", unsafe_allow_fraction=1.0)


def commits(location: Path) -> list[str]:
    with reclaim.open_catalog(location) as catalog:
        return [commit.message for commit in catalog.repository("sales").log("main")]


def test_a_plan_says_how_much_and_why(store: reclaim.OpenStore) -> None:
    plan = make_plan(store)
    figures = plan.summary
    assert figures.objects == sum(total.objects for total in figures.by_reason.values()) > 0
    assert figures.bytes == sum(total.bytes for total in figures.by_reason.values())
    assert figures.all_objects == figures.objects + sum(
        total.objects for total in figures.kept_by_reason.values()
    )
    assert figures.dead == 4
    assert f"{figures.objects:,} objects" in repr(plan)


def test_objects_are_arrow(store: reclaim.OpenStore) -> None:
    plan = make_plan(store)
    objects = plan.objects()
    assert objects.column_names[:3] == ["address", "path", "size"]
    assert objects.num_rows == plan.summary.objects
    assert sum(objects["size"].to_pylist()) == plan.summary.bytes
    assert len(objects.to_pandas()) == plan.summary.objects
    assert polars.DataFrame(objects)["size"].sum() == plan.summary.bytes
    by_duckdb = duckdb.connect().execute("select sum(size) from objects").fetchall()
    assert by_duckdb == [(plan.summary.bytes,)]
    assert {"2026/orders.csv"} <= set(objects["path"].to_pylist())
    verdicts = plan.commits()["verdict"].to_pylist()
    assert len(verdicts) == 6


def test_an_empty_plan_has_no_objects(store: reclaim.OpenStore) -> None:
    plan = store.plan(reclaim.Policy())
    assert (plan.summary.objects, plan.objects().num_rows) == (0, 0)
    assert "reason" in plan.objects().column_names


def test_apply_with_quarantine_undo_and_purge(store: reclaim.OpenStore, location: Path) -> None:
    before = commits(location)
    plan = make_plan(store)
    run = plan.apply(quarantine="14d")
    assert (run.kind, run.phase, run.objects) == ("collect", Phase.DONE, plan.summary.objects)
    assert run.bytes == plan.summary.bytes
    assert run.quarantined_until is not None
    assert run.quarantined_until - run.started_at > timedelta(days=13)
    assert len(commits(location)) < len(before)
    assert store.due() == []
    done = run.undo()
    assert done.objects == plan.summary.objects
    assert run.phase is Phase.UNDONE
    assert commits(location) == before


def test_a_quarantine_is_purged(store: reclaim.OpenStore) -> None:
    run = make_plan(store).apply(quarantine=True)
    assert store.run("latest").id == store.run(run.id[:8]).id == run.id
    assert store.purge() is None
    assert [listed.id for listed in store.due(older_than="0s")] == [run.id]
    purged = run.purge()
    assert purged is not None
    assert purged.runs == [run.id]
    assert run.phase is Phase.PURGED
    assert len(store.runs()) == 2
    assert store.due(older_than="0s") == []


def test_apply_deletes_by_default_and_can_be_repeated(store: reclaim.OpenStore) -> None:
    plan = make_plan(store)
    run = plan.apply()
    assert run.quarantined_until is None
    assert run.settled is None
    repeated = plan.apply()
    assert repeated.settled is not None
    assert repeated.settled.before
    with pytest.raises(Refused, match="put nothing in quarantine"):
        run.undo()


def test_a_plan_is_applied_elsewhere_by_its_digest(
    store: reclaim.OpenStore, location: Path
) -> None:
    made = make_plan(store)
    with reclaim.open_store("sales", catalog=location, engine="local") as other:
        plan = other.open_plan(made.location)
        assert plan.digest == made.digest
        with pytest.raises(PlanRefused):
            plan.apply(digest="0" * 64)
        assert plan.apply(digest=made.digest).objects == made.summary.objects


def test_a_plan_alone_is_read_and_not_applied(store: reclaim.OpenStore) -> None:
    made = make_plan(store)
    plan = reclaim.open_plan(made.location)
    assert plan.summary == made.summary
    with pytest.raises(InvalidInput, match="not applied"):
        plan.apply()
    with pytest.raises(NotFound):
        reclaim.open_plan(made.location + "-gone")


def test_a_plan_of_another_store_is_refused(store: reclaim.OpenStore, location: Path) -> None:
    made = make_plan(store)
    with reclaim.open_catalog(location) as catalog:
        catalog.create_repository("other")
        with (
            reclaim.open_store("other", catalog=catalog, engine="local") as other,
            pytest.raises(PlanRefused, match="not for other"),
        ):
            other.open_plan(made.location).apply()
    assert made.apply().objects == made.summary.objects


def test_nothing_is_changed_before_the_checks_have_passed(
    store: reclaim.OpenStore, location: Path
) -> None:
    before, plan = commits(location), make_plan(store)

    class NotNowError(Exception):
        pass

    def refuse() -> None:
        raise NotNowError

    with pytest.raises(NotNowError):
        plan.apply(before_change=refuse)
    with pytest.raises(TooMuch):
        plan.apply(max_objects=1)
    with pytest.raises(TooMuch):
        plan.apply(max_bytes="1B")
    assert commits(location) == before
    assert store.runs() == []


def test_exclude(store: reclaim.OpenStore) -> None:
    plan = make_plan(store)
    run = plan.apply(exclude=["2026/*"])
    assert 0 < run.objects < plan.summary.objects
    left = run.record.left_out
    assert run.objects + left.objects == plan.summary.objects


def test_kinds_of_runs(store: reclaim.OpenStore, location: Path) -> None:
    edit = store.plan(reclaim.Policy(keep_last=1), kind="history-only")
    assert edit.summary.objects == 0
    with pytest.raises(InvalidInput, match="quarantine does not go with a history-only plan"):
        edit.apply(quarantine=True)
    with pytest.raises(InvalidInput, match="quarantine does not go with a history-only plan"):
        store.gc(reclaim.Policy(keep_last=1), kind="history-only", quarantine=True)
    run = edit.apply()
    assert (run.kind, len(commits(location))) == ("expire", 2)
    assert run.undo().edited is not None
    assert len(commits(location)) == 6
    uncommitted = store.plan(kind="uncommitted", min_age="0s")
    assert uncommitted.document.uncommitted is not None
    with pytest.raises(InvalidInput, match="a policy does not go with"):
        store.plan(reclaim.Policy(keep_last=1), kind="uncommitted")
    with pytest.raises(InvalidInput, match="branch does not go with"):
        store.plan(branch="main")
    with pytest.raises(NotFound):
        store.plan(kind="lifecycle")
    with pytest.raises(InvalidInput, match="no kind of run"):
        store.plan(kind="everything")  # type: ignore[arg-type]


def test_gc(store: reclaim.OpenStore, location: Path) -> None:
    done = store.gc(reclaim.Policy(keep_last=2), min_age="0s", unsafe_allow_fraction=1)
    assert done.plan is not None
    assert done.run is not None
    assert done.run.objects == done.plan.summary.objects > 0
    nothing = store.gc(reclaim.Policy(keep_last=2), min_age="24h")
    assert nothing.plan is not None
    assert nothing.run is None
    with pytest.raises(TooMuch):
        store.gc(reclaim.Policy(keep_last=1), min_age="0s", unsafe_allow_fraction=1, max_objects=0)


def test_the_stored_policy_applies_unless_another_is_given(
    store: reclaim.OpenStore, location: Path
) -> None:
    assert store.policy is None
    store.set_policy(reclaim.Policy(keep_last=3))
    assert store.policy == reclaim.Policy(keep_last=3)
    assert store.plan().summary.expired == 2
    assert store.plan(reclaim.Policy(keep_last=4)).summary.expired == 1
    assert store.plan(reclaim.Policy()).summary.expired == 0
    store.unset_policy()
    assert store.plan().summary.expired == 0


def test_lifecycle_rules(store: reclaim.OpenStore) -> None:
    store.set_lifecycle_rules('{"old": {"prefix": "2026/", "days": 30}}')
    [rule] = store.lifecycle_rules.rules
    assert (rule.id, rule.days) == ("old", 30)
    assert store.plan(kind="lifecycle").summary.objects == 0
    store.unset_lifecycle_rules()
    with pytest.raises(NotFound):
        _ = store.lifecycle_rules


def test_a_lease_keeps_a_commit(store: reclaim.OpenStore, location: Path) -> None:
    with reclaim.open_catalog(location) as catalog:
        repo = catalog.repository("sales")
        old = repo.log("main")[3].id
        with store.lease(old, length="1h", holder="report") as lease:
            assert (lease.snapshot, lease.holder[:8]) == (old, "report (")
            assert [held.id for held, valid in store.leases() if valid] == [lease.id]
            assert make_plan(store).apply().objects > 0
        assert store.leases() == []
        assert make_plan(store).apply().objects > 0
        with pytest.raises(Gone):
            repo.at(old).get("2026/orders.csv")


def test_leases_of_the_same_holder_do_not_replace_each_other(
    store: reclaim.OpenStore, location: Path
) -> None:
    """Nested blocks, and a lease that somebody holds by hand."""
    with reclaim.open_catalog(location) as catalog:
        repo = catalog.repository("sales")
        old = repo.log("main")[3].id
        by_hand = repo.take_lease(old, holder="report", length=timedelta(days=7))
        with store.lease(old, holder="report", length="1h") as outer:
            with store.lease(old, holder="report", length="1h"):
                pass
            kept = {lease.id for lease, valid in store.leases() if valid}
            assert kept == {outer.id, by_hand.id}
        assert [lease.id for lease, _ in store.leases()] == [by_hand.id]


def test_a_lost_lease_ends_the_block_with_an_error(store: reclaim.OpenStore) -> None:
    with ExitStack() as block:
        lease = block.enter_context(store.lease("main"))
        store.release_lease(lease.id)
        with pytest.raises(LeaseLapsed, match="was not renewed in time"):
            block.close()
    with pytest.raises(InvalidInput, match="cannot be renewed in time"):
        store.lease("main", length="5min").__enter__()


def test_an_error_in_the_block_is_not_hidden(store: reclaim.OpenStore) -> None:
    def read(lease: str) -> None:
        store.release_lease(lease)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), store.lease("main") as lease:
        read(lease.id)


def test_names_of_stores(location: Path) -> None:
    with Catalog.open(location) as catalog:
        catalog.create_repository("archive")
        uid = catalog.repository("archive").uid
        catalog.delete_repository("archive")
        assert reclaim.list_stores(catalog=catalog) == ["sales", uid]
        with reclaim.open_store(uid, catalog=catalog, engine="local") as deleted:
            assert deleted.plan(min_age="0s").document.store.deleted
        # The caller's catalog stays open.
        assert catalog.repository("sales").name == "sales"
    with pytest.raises(NotFound):
        reclaim.open_store("nobody", catalog=location)
    with pytest.raises(InvalidInput, match="unknown kind of store"):
        reclaim.open_store("delta:/tmp/x")


def test_the_catalog_of_the_environment(location: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECLAIM_CATALOG", str(location))
    assert reclaim.list_stores() == ["sales"]


def test_progress_goes_to_a_function(location: Path) -> None:
    seen: list[reclaim.Progress] = []
    with reclaim.open_store(
        "sales", catalog=location, engine="local", progress=seen.append
    ) as store:
        make_plan(store)
    assert next(reading.stage for reading in seen if reading.finished) == "check"
    assert all(reading.seconds >= 0 for reading in seen)
    loud = reclaim.open_store("sales", catalog=location, engine="local", progress="loud")  # type: ignore[arg-type]
    with loud, pytest.raises(InvalidInput, match="progress"):
        make_plan(loud)


def test_progress_as_a_bar_of_rich(location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with reclaim.open_store("sales", catalog=location, engine="local", progress="rich") as store:
        make_plan(store)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "list" in captured.err


def test_an_engine_must_be_known(location: Path) -> None:
    with reclaim.open_store("sales", catalog=location, engine="ray") as store:  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="no engine 'ray'"):
            store.plan()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quarantine": False, "markers": True}, "delete markers need a quarantine"),
        ({"quarantine": "3m"}, "m could mean months or minutes"),
        ({"quarantine": -timedelta(days=1)}, "quarantine is negative"),
        ({"quarantine": 14}, "quarantine is 14"),
        ({"max_bytes": "much"}, "not a size"),
        ({"max_objects": float("nan")}, "max_objects is nan"),
        ({"max_objects": -1}, "max_objects is -1"),
        ({"exclude": "raw/*"}, "exclude is a text"),
    ],
)
def test_options_that_make_no_sense(
    store: reclaim.OpenStore, options: dict[str, Any], said: str
) -> None:
    plan = make_plan(store)
    with pytest.raises(InvalidInput, match=said):
        plan.apply(**options)
    assert store.runs() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unsafe_allow_fraction": 90}, "unsafe_allow_fraction is 90"),
        ({"unsafe_allow_fraction": float("nan")}, "unsafe_allow_fraction is nan"),
        ({"min_age": 0}, "min_age is 0"),
        ({"kind": "history-only", "refs": "main"}, "refs is a text"),
        ({"policy": {"keep_last": 1}}, "is not a Policy"),
    ],
)
def test_options_of_a_plan_that_make_no_sense(
    store: reclaim.OpenStore, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        store.plan(**options)


def test_a_misspelt_option_is_not_ignored(store: reclaim.OpenStore) -> None:
    plan = make_plan(store)
    calls: list[Callable[[], object]] = [
        lambda: plan.apply(**{"keep": "14d"}),  # type: ignore[arg-type]
        lambda: store.gc(**{"exclude": ["raw/*"]}),  # type: ignore[arg-type]
        lambda: store.gc(**{"history_only": True}),  # type: ignore[arg-type]
        lambda: store.plan(**{"min_ages": "0s"}),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"unknown option|unexpected keyword"):
            call()
    assert store.runs() == []


def test_a_policy_needs_instants_with_a_time_zone(store: reclaim.OpenStore) -> None:
    with pytest.raises(InvalidInput, match="has no time zone"):
        reclaim.Policy(older_than=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="is in the future"):
        store.set_policy(reclaim.Policy(older_than=datetime(2999, 1, 1, tzinfo=UTC)))
    assert store.policy is None


def test_a_folder_named_like_a_plan_is_no_plan(
    store: reclaim.OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(store)
    (tmp_path / "latest").mkdir()
    monkeypatch.chdir(tmp_path)
    assert store.open_plan("latest").run_id == plan.run_id

"""Plan, apply, undo and purge from Python, on a repository of a catalog."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

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
            assert (lease.snapshot, lease.holder) == (old, "report")
            assert [held.id for held, valid in store.leases() if valid] == [lease.id]
            assert make_plan(store).apply().objects > 0
        assert store.leases() == []
        assert make_plan(store).apply().objects > 0
        with pytest.raises(Gone):
            repo.at(old).get("2026/orders.csv")


def test_a_lease_that_was_not_renewed_is_told(
    store: reclaim.OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store.store), "renew_lease", _fail)
    with ExitStack() as block:
        block.enter_context(store.lease("main", length=timedelta(seconds=0.2)))
        while any(valid for _, valid in store.leases()):
            pass
        with pytest.raises(LeaseLapsed, match="was not renewed in time"):
            block.close()


def _fail(*_: object) -> None:
    raise ConnectionError


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
        ({"max_bytes": "much"}, "not a size"),
    ],
)
def test_options_that_make_no_sense(
    store: reclaim.OpenStore, options: dict[str, object], said: str
) -> None:
    plan = make_plan(store)
    with pytest.raises(InvalidInput, match=said):
        plan.apply(**options)  # type: ignore[arg-type]

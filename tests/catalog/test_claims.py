"""Claims to addresses that commits refer to: who may refer to them, and when they are final."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update

from reclaim.catalog import Branch, Repository
from reclaim.catalog.collection import locks, policies
from reclaim.catalog.collection.condemn import claimed_addresses, leftovers
from reclaim.catalog.database.schema import ClaimState, LedgerState, claims, ledger
from reclaim.errors import Conflict, Gone, LockLost, OwnedAddress, PlanRefused
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.catalog.claiming import RULE, Claimer, claiming
from tests.conftest import Backend

REFER: dict[str, Callable[[Branch], object]] = {
    "copy": lambda main: main.copy("a", "b"),
    "move": lambda main: main.move("a", "b"),
}


@pytest.fixture
def address(main: Branch) -> str:
    """The address of an object that is in a commit, and nowhere else."""
    found = main.put("a", b"x").address
    main.commit("one")
    return found


def states(repo: Repository) -> dict[str, str]:
    return {row.run_id: row.state for row in raw.rows(repo, claims)}


@pytest.mark.parametrize("refer", REFER)
def test_what_is_claimed_cannot_be_referred_to(
    repo: Repository, main: Branch, address: str, refer: str
) -> None:
    with claiming(repo) as run:
        assert run.claim(address) == 1
        with pytest.raises(Conflict) as provisional:
            REFER[refer](main)
        assert provisional.value.details == {"run": "run-7", "rule": RULE}
        assert "reclaim clean" in (provisional.value.hint or "")
        # Bytes are read as long as they are there, and other paths are not touched.
        assert main.get("a") == b"x"
        main.put("c", b"y")
        run.close()
        assert run.promote()
    with pytest.raises(Gone) as promoted:
        REFER[refer](main)
    assert promoted.value.details == {"run": "run-7", "rule": RULE}
    assert [entry.path for entry in main.entries()] == ["a", "c"]


def test_reading_what_a_rule_took_says_which_run_and_rule(
    repo: Repository, main: Branch, address: str
) -> None:
    with claiming(repo) as run:
        run.take(address)
    for read in (main.get, lambda path: list(main.stream(path))):
        with pytest.raises(Gone, match=r"^a expired: lifecycle run run-7 deleted its data") as gone:
            read("a")
        assert gone.value.details == {"run": "run-7", "rule": RULE}
        assert "reclaim undo run-7" in (gone.value.hint or "")
    repo.create_branch("other")
    with pytest.raises(Gone, match="old-logs"):
        repo.branch("other").copy("a", "b", source_ref="main")
    # What is there by its name only can be removed, and put again.
    main.delete("a")
    main.put("a", b"new")
    assert main.get("a") == b"new"


def test_a_claim_is_dropped_for_what_is_staged_or_waited_for(
    repo: Repository, main: Branch, address: str
) -> None:
    main.copy("a", "b")
    pending = main.get_physical_address("c").address
    with claiming(repo) as run:
        assert run.claim(address, pending) == 2
        run.close()
        assert run.drop_staged() == 2
        assert run.claimed() == 0
        main.copy("a", "d")


def test_a_sealed_entry_holds_its_address(
    repo: Repository, main: Branch, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.catalog.refs import committing

    def die(*_: object) -> None:
        raise RuntimeError("died")

    main.copy("a", "b")
    monkeypatch.setattr(committing, "land", die)
    with pytest.raises(RuntimeError):
        main.commit("never lands")
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        assert run.drop_staged() == 1


NEW: dict[str, Callable[[Repository], object]] = {
    "branch": lambda repo: repo.create_branch("archive"),
    "tag": lambda repo: repo.create_tag("v1", "main"),
    "lease": lambda repo: repo.take_lease("main~1", holder="me", length=timedelta(hours=1)),
    "commit": lambda repo: repo.branch("main").commit("two", allow_empty=True),
    "reset": lambda repo: repo.branch("main").reset_to("main~1"),
    "revert": lambda repo: repo.branch("main").revert("main"),
    "merge": lambda repo: repo.branch("main").merge("side"),
}


@pytest.mark.parametrize("new", NEW)
def test_claims_are_not_promoted_if_something_names_another_commit(
    repo: Repository, main: Branch, address: str, new: str
) -> None:
    side = repo.create_branch("side")
    side.put("s", b"s")
    side.commit("beside")
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        seen = run.seen()
        NEW[new](repo)
        assert not run.promote(seen)
        assert states(repo) == {"run-7": ClaimState.PROVISIONAL}
        assert run.promote()
    assert states(repo) == {"run-7": ClaimState.PROMOTED}


def test_what_names_less_does_not_hinder(repo: Repository, main: Branch, address: str) -> None:
    repo.create_branch("side")
    repo.create_tag("v1", "main")
    lease = repo.take_lease("main", holder="me", length=timedelta(hours=1))
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        seen = run.seen()
        repo.delete_branch("side")
        repo.delete_tag("v1")
        repo.release_lease(lease.id)
        assert run.promote(seen)


def test_a_plan_by_other_rules_is_refused(repo: Repository, address: str) -> None:
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        policies.store_lifecycle(repo._workspace, "other rules")
        with pytest.raises(PlanRefused, match="rules were changed"):
            run.promote()
        policies.store_lifecycle(repo._workspace, None)
        assert run.promote()


def test_claims_are_final_once(repo: Repository, address: str) -> None:
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        assert run.promote()
        late_calls: list[Callable[[], object]] = [
            run.promote,
            lambda: run.drop(address),
            lambda: run.claim(address),
        ]
        for late in late_calls:
            with pytest.raises(Conflict):
                late()
        assert claimed_addresses.is_promoted(run.workspace, "run-7")
        leftovers.release_under(run.workspace, run.lock)
        assert run.claimed() == 1


def test_claims_of_a_run_that_died_are_taken_back(
    repo: Repository, main: Branch, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimed_addresses, "BATCH", 2)
    main.put_many([(f"x{n}", b"x") for n in range(5)])
    main.commit("more")
    every = [entry.address for entry in main.entries()]
    with claiming(repo) as run:
        assert run.claim(*every) == 6
    with pytest.raises(Conflict):
        main.copy("a", "b")
    assert leftovers.release(repo._workspace) == 0
    assert states(repo) == {}
    main.copy("a", "b")


def test_a_run_that_lost_its_lock_claims_and_promotes_nothing(
    repo: Repository, clock: FakeClock, address: str
) -> None:
    slow = claiming(repo, "slow")
    run = slow.__enter__()
    run.claim(address)
    run.close()
    clock.advance(hours=1)
    with claiming(repo, "next") as other:
        leftovers.release_under(other.workspace, other.lock)
        assert states(repo) == {}
        for late in (run.promote, run.close, lambda: run.claim(address)):
            with pytest.raises(LockLost):
                late()
        assert other.claim(address) == 1
    assert states(repo) == {"next": ClaimState.PROVISIONAL}


def test_no_two_runs_claim_the_same(repo: Repository, main: Branch, address: str) -> None:
    second = main.put("b", b"y").address
    main.commit("two")
    with claiming(repo, "first") as run:
        run.take(address)
    with claiming(repo, "second") as run:
        assert run.claim(address, second) == 1
        run.close()
        assert run.promote()
    with pytest.raises(Gone, match="run first"):
        main.get("a")


def test_what_the_ledger_condemned_is_not_claimed(repo: Repository, main: Branch) -> None:
    dropped = main.put("a", b"x").address
    main.reset_path("a")
    assert raw.ledger_states(repo) == {dropped: LedgerState.CONDEMNED}
    with claiming(repo) as run:
        assert run.claim(dropped) == 0


def test_nothing_is_claimed_outside_the_repository(repo: Repository) -> None:
    for outside in ("elsewhere/a", f"repos/{repo.uid}/_reclaim/meta/p/x", "repos/other/branches/a"):
        with claiming(repo) as run, pytest.raises(OwnedAddress, match="outside"):
            run.claim(outside)


def test_cleaner_and_reaper_leave_claims_alone(
    backend: Backend, repo: Repository, main: Branch, clock: FakeClock
) -> None:
    """The row of the ledger is there until it is cleaned; a claim does not touch it."""
    repo.change_settings(hard_delete=True)
    kept = main.put("kept", b"k").address
    # Committed by another instance that does not clean.
    address = main.put("a", b"x").address
    main.commit("one")
    with repo._workspace.database.write() as connection:
        live = {"state": LedgerState.LIVE, "created_at": 0, "repo_uid": repo.uid}
        connection.execute(ledger.insert().values(address=address, **live))
    with claiming(repo) as run:
        run.take(address)
    clock.advance(days=40)
    for _ in range(2):
        backend.open().reap()
        repo.clean()
    with pytest.raises(Gone, match="run-7"):
        main.get("a")
    assert main.get("kept") == b"k"
    assert kept in raw.objects(repo)


def test_many_pages_are_written_down(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.storage import ObjectStorage, hashed_files

    monkeypatch.setattr(claimed_addresses, "PART", 2)
    main.put_many([(f"x{n}", b"x") for n in range(5)])
    main.commit("more")
    every = sorted(entry.address for entry in main.entries())
    place = ObjectStorage.open("memory://")
    with claiming(repo) as run:
        run.claim(*every)
        assert not claimed_addresses.write_expired(run.workspace, place, "none/")
        run.close()
        assert run.promote()
        written = claimed_addresses.write_claimed(run.workspace, "run-7", place, "claimed/")
        expired = claimed_addresses.write_expired(run.workspace, place, "expired/")
        besides = claimed_addresses.write_expired(run.workspace, place, "none/", besides="run-7")
    for files in (written, expired):
        assert list(files.values()) == [2, 2, 1]
        rows = [hashed_files.read(place, file).column("address").to_pylist() for file in files]
        assert [address for page in rows for address in page] == every
    assert not besides


def test_a_released_claim_says_nothing(repo: Repository, main: Branch, address: str) -> None:
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        assert run.promote()
    with repo._workspace.database.write() as connection:
        # As an undo leaves it that dies before the rows are removed.
        connection.execute(update(claims).values(state=ClaimState.RELEASED))
    main.copy("a", "b")
    with claiming(repo, "next") as run:
        leftovers.release_under(run.workspace, run.lock)
        assert states(repo) == {}
        assert run.claim(address) == 1


def test_the_lock_of_one_run_excludes_another(repo: Repository) -> None:
    with claiming(repo), pytest.raises(Conflict):
        with locks.hold(repo._workspace, "other"):
            pass


def test_a_claimer_is_of_its_run(repo: Repository, address: str) -> None:
    with claiming(repo) as run:
        assert isinstance(run, Claimer)
        assert run.claim() == 0
        run.close()
        assert run.promote()

"""The ledger and the cleaner: an address is condemned with its last staged row, never sooner."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, update

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import LedgerState, TokenState
from reclaim.catalog.database.schema import ledger as ledger_rows
from reclaim.catalog.staging import cleaner, ledger, tokens
from reclaim.errors import Gone
from tests.catalog import raw
from tests.conftest import Backend

LIVE, CONDEMNED = LedgerState.LIVE, LedgerState.CONDEMNED


def state(repo: Repository, address: str) -> str | None:
    return raw.ledger_states(repo).get(address)


def seal(repo: Repository, branch: str = "main") -> None:
    """What the start of a commit does."""
    with repo._workspace.database.write() as connection:
        view = tokens.lock_branch(connection, repo.uid, branch)
        tokens.seal(connection, view, "partition")


def test_put_enters_an_address_and_the_commit_settles_it(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    assert state(repo, address) == LIVE
    main.commit("one")
    assert state(repo, address) is None


def test_many_uploads_enter_with_any_path(repo: Repository, main: Branch) -> None:
    """On PostgreSQL they are copied, as text in which some characters have a meaning."""
    odd = ["\\N", "\\.", "back\\slash", "\\t", "ü/漢/😀", "'quoted'"]
    paths = [*odd, *(f"plain {number}" for number in range(30))]
    main.put_many((path, path.encode()) for path in paths)
    entries = {entry.address: (entry.path, entry.size) for entry in main.entries()}
    assert {path for path, _ in entries.values()} == set(paths)
    assert {row.address: (row.path, row.size) for row in raw.rows(repo, ledger_rows)} == entries
    assert {row.repo_uid for row in raw.rows(repo, ledger_rows)} == {repo.uid}
    main.put_many((f"more {number}", b"x") for number in range(30))
    assert len(raw.rows(repo, ledger_rows)) == len(paths) + 30


def test_an_overwritten_upload_is_condemned(repo: Repository, main: Branch) -> None:
    first, second = main.put("a", b"one").address, main.put("a", b"two").address
    assert (state(repo, first), state(repo, second)) == (CONDEMNED, LIVE)


@pytest.mark.parametrize("how", ["delete", "reset_path", "reset_prefix", "reset"])
def test_a_removed_upload_is_condemned(repo: Repository, main: Branch, how: str) -> None:
    address = main.put("a", b"x").address
    if how == "reset":
        main.reset()
    else:
        getattr(main, how)("a")
    assert state(repo, address) == CONDEMNED


def test_a_deleted_branch_condemns_what_only_it_had(repo: Repository, main: Branch) -> None:
    other = repo.create_branch("other")
    address = other.put("a", b"x").address
    repo.delete_branch("other")
    assert state(repo, address) == LIVE, "the cleaner does it, in batches"
    repo.clean()
    assert state(repo, address) == CONDEMNED


def test_a_second_reference_keeps_an_address(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    main.copy("a", "b")
    main.delete("a")
    assert state(repo, address) == LIVE
    main.delete("b")
    assert state(repo, address) == CONDEMNED


def test_a_move_keeps_an_address(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    main.move("a", "b")
    assert state(repo, address) == LIVE
    assert main.get("b") == b"x"
    old = main.put("c", b"y").address
    main.move("b", "c")
    assert (state(repo, address), state(repo, old)) == (LIVE, CONDEMNED)


def test_a_copy_over_itself_keeps_the_address(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    main.copy("a", "a")
    assert state(repo, address) == LIVE


def test_a_committed_address_is_never_touched_online(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    main.commit("one")
    main.copy("a", "b")
    main.delete("b")
    main.delete("a")
    main.reset()
    assert state(repo, address) is None
    assert repo.at("main").get("a") == b"x"


def test_a_committed_row_that_waits_for_the_cleaner_holds_its_address(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    address = main.put("a", b"x").address
    main.commit("one")
    main.copy("a", "b")
    main.delete("b")
    assert state(repo, address) == LIVE
    repo.clean()
    assert state(repo, address) is None


def test_the_cleaner_leaves_what_a_run_has_condemned(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    address = main.put("a", b"x").address
    main.commit("one")
    with repo._workspace.database.write() as connection:
        connection.execute(update(ledger_rows).values(state=CONDEMNED, run_id="run-3"))
    repo.clean()
    assert state(repo, address) == CONDEMNED
    with pytest.raises(Gone, match="run-3"):
        main.copy("a", "b")


def test_a_sealed_row_holds_its_address(repo: Repository, main: Branch) -> None:
    address = main.put("a", b"x").address
    seal(repo)
    main.put("a", b"y")
    main.delete("a")
    assert state(repo, address) == LIVE


def test_what_a_newer_token_of_the_same_commit_shadows_is_condemned(
    repo: Repository, main: Branch
) -> None:
    shadowed = main.put("a", b"one").address
    copied = main.put("b", b"two").address
    main.copy("b", "c")
    buried = main.put("d", b"three").address
    seal(repo)
    kept = main.put("a", b"four").address
    main.delete("b")
    main.delete("d")
    main.commit("both")
    states = raw.ledger_states(repo)
    assert states == {shadowed: CONDEMNED, buried: CONDEMNED}
    assert main.stat("a").address == kept
    assert main.stat("c").address == copied
    assert main.get("c") == b"two"


def test_a_condemned_address_is_refused(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = main.put("a", b"x").address
    with repo._workspace.database.write() as connection:
        ledger.hold(connection, address)
    main.delete("a")
    with repo._workspace.database.write() as connection, pytest.raises(Gone, match="removed by"):
        ledger.hold(connection, address)


def test_copy_and_move_refuse_what_was_condemned_meanwhile(repo: Repository, main: Branch) -> None:
    """A row whose address is condemned cannot exist; if it does, it does not spread."""
    from sqlalchemy import update

    from reclaim.catalog.database.schema import ledger as table

    main.put("a", b"x")
    with repo._workspace.database.write() as connection:
        connection.execute(update(table).values(state=CONDEMNED, run_id="run-9", rule="r"))
    for spread in (main.copy, main.move):
        with pytest.raises(Gone, match="run-9"):
            spread("a", "b")
    assert main.exists("a")
    assert not main.exists("b")


def test_cleaning_goes_in_batches_and_can_stop(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "BATCH", 4)
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    main.put_many((f"a{n}", b"x") for n in range(10))
    main.commit("ten")
    first = repo.clean(limit=5)
    assert (first.rows, first.finished) == (8, False)
    assert len(raw.staged_paths(repo)) == 2
    second = repo.clean()
    assert (second.rows, second.tokens, second.finished) == (2, 1, True)
    assert raw.staged_paths(repo) == []
    assert raw.ledger_states(repo) == {}
    assert set(raw.token_states(repo).values()) == {TokenState.OPEN}
    assert len(list(main.entries())) == 10


def test_a_reset_of_many_entries_only_changes_token_states(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    main.put_many((f"a{n}", b"x") for n in range(10))
    main.reset()
    assert len(raw.staged_paths(repo)) == 10
    assert list(main.entries()) == []
    repo.clean()
    assert set(raw.ledger_states(repo).values()) == {CONDEMNED}


def test_gone_says_which_run_and_rule_took_an_object(repo: Repository, main: Branch) -> None:
    from sqlalchemy import insert

    from reclaim.catalog.database.schema import ledger as table
    from reclaim.errors import Corrupt

    entry = main.put("a", b"x")
    main.commit("one")
    repo._workspace.storage.delete(entry.address)
    with pytest.raises(Corrupt, match="no run of this catalog deleted them"):
        main.get("a")
    with repo._workspace.database.write() as connection:
        connection.execute(
            insert(table).values(
                address=entry.address,
                repo_uid=repo.uid,
                state=CONDEMNED,
                created_at=0,
                run_id="run-3",
                rule="lifecycle rule logs",
            )
        )
    with pytest.raises(Gone, match=r"run-3.*lifecycle rule logs") as caught:
        main.get("a")
    assert caught.value.details == {"run": "run-3", "rule": "lifecycle rule logs"}
    with pytest.raises(Gone):
        list(main.stream("a"))


def test_counting_references_uses_an_index(embedded: Backend) -> None:
    """Otherwise every overwrite would read the whole staging area."""
    repo = embedded.init().create_repository("sales")
    plans: list[str] = []
    database = repo._workspace.database

    @event.listens_for(database._engine, "before_cursor_execute")
    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith(("SELECT", "DELETE", "UPDATE")) and "sqlite_" not in statement:
            found = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(f"{row[3]}  ← {statement}" for row in found)

    main = repo.branch("main")
    main.put("a", b"one")
    main.put("a", b"two")
    main.move("a", "b")
    main.delete("b")
    main.put("c", b"three")
    main.commit("one")
    repo.clean()
    assert plans
    # The last is a set of values that came with the statement.
    small = ("catalog_info", "repositories", "anon_", "CONSTANT", "(subquery")
    scans = [p for p in plans if p.startswith("SCAN") and not p.split()[1].startswith(small)]
    assert scans == []


def test_rows_of_a_deleted_repository_are_cleaned_too(
    catalog: Catalog, repo: Repository, main: Branch
) -> None:
    address = main.put("a", b"x").address
    catalog.delete_repository("sales")
    catalog.create_repository("sales")
    assert catalog.clean()["sales"].rows == 1
    assert raw.staged_paths(repo) == []
    assert state(repo, address) == CONDEMNED

"""A commit that is collected under a reader without a lease: Gone, and not Corrupt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Corrupt, Gone
from tests.catalog import raw
from tests.conftest import Backend

pytestmark = pytest.mark.repeats(first=4)

READS: dict[str, Callable[[Repository], object]] = {
    "stat": lambda repo: repo.at("main").stat("a"),
    "exists": lambda repo: repo.branch("main").exists("a"),
    "list": lambda repo: repo.branch("main").list(),
    "entries": lambda repo: list(repo.branch("main").entries()),
    "get": lambda repo: repo.branch("main").get("a"),
    "stream": lambda repo: list(repo.branch("main").stream("a")),
    "uncommitted": lambda repo: list(repo.branch("main").uncommitted()),
    "copy": lambda repo: repo.branch("other").copy("a", "copied", source_ref="main"),
    "diff": lambda repo: list(repo.diff("other", "main")),
}
OF_BYTES = ("get", "stream")
TAKEN = (CommitState.PROVISIONAL, CommitState.CONDEMNED, CommitState.COLLECTED)
CASES = [(part, read) for part in ("metarange", "range") for read in READS] + [
    ("bytes", read) for read in OF_BYTES
]


@pytest.fixture
def addresses(repo: Repository, main: Branch) -> dict[str, str]:
    """Where the parts of the commit on main are."""
    repo.create_branch("other")
    entry = main.put("a", b"x")
    main.put("c", b"x")
    commit = main.commit("one")
    # Staged in between, so that a look at what is uncommitted needs the range.
    main.put("b", b"y")
    (listed,) = repo._workspace.containers.tree(commit.metarange).ranges
    return {"metarange": commit.metarange, "range": listed.address, "bytes": entry.address}


def race(
    repo: Repository,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    happens: Callable[[], None],
) -> list[str]:
    """Let something happen, and the object be deleted, right before it is asked for."""
    storage = repo._workspace.storage
    asked: list[str] = []

    def racing(method: Callable[[str], Any]) -> Callable[[str], Any]:
        def ask(wanted: str) -> Any:
            if wanted == address and not asked:
                asked.append(wanted)
                happens()
                storage.delete(address)
            return method(wanted)

        return ask

    for name in ("get", "stream"):
        monkeypatch.setattr(storage, name, racing(getattr(storage, name)))
    return asked


@pytest.mark.remote_values(state=[CommitState.CONDEMNED])
@pytest.mark.parametrize("state", TAKEN)
@pytest.mark.parametrize(("part", "read"), CASES)
def test_what_was_collected_under_a_reader_is_gone(
    backend: Backend,
    repo: Repository,
    addresses: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    state: CommitState,
    part: str,
    read: str,
) -> None:
    commit = repo.commit("main").id
    fresh = backend.open().repository("sales")
    asked = race(fresh, monkeypatch, addresses[part], lambda: raw.condemn(repo, commit, state))
    with pytest.raises(Gone, match="run-7") as caught:
        READS[read](fresh)
    assert asked
    assert commit in caught.value.message
    assert caught.value.details == {"run": "run-7", "rule": "expired after 30 days"}


@pytest.mark.parametrize(("part", "read"), CASES)
def test_what_nobody_collected_is_corrupt(
    backend: Backend,
    repo: Repository,
    addresses: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    read: str,
) -> None:
    fresh = backend.open().repository("sales")
    asked = race(fresh, monkeypatch, addresses[part], lambda: None)
    with pytest.raises(Corrupt, match="missing"):
        READS[read](fresh)
    assert asked


def test_a_damaged_container_is_corrupt_whatever_became_of_its_commit(
    backend: Backend, repo: Repository, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit("main").id
    fresh = backend.open().repository("sales")
    storage = fresh._workspace.storage
    get = storage.get

    def damaged(address: str) -> bytes:
        if address != addresses["range"]:
            return get(address)
        raw.condemn(repo, commit)
        return b"not a range"

    monkeypatch.setattr(storage, "get", damaged)
    with pytest.raises(Corrupt, match="cannot be read"):
        fresh.branch("main").stat("a")

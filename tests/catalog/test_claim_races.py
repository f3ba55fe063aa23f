"""Claims and references at the same time, on real connections, in both orders.

Each race is arranged with two instances whose threads meet inside their transactions. What weakens
the lock of references loses them: ``test_without_the_lock_a_race_is_lost``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Repository
from reclaim.catalog.collection.condemn import claimed_addresses
from reclaim.catalog.refs import committing, leases, refs
from reclaim.catalog.staging import claims, reference_lock, tokens
from reclaim.errors import Conflict, Gone
from reclaim.model import Lease, Ref
from reclaim.testing import FakeClock
from tests.catalog.claiming import claiming
from tests.catalog.test_isolation import paused, race
from tests.conftest import Backend, make_backend

pytestmark = pytest.mark.repeats(first=4)

Seen = tuple[list[Ref], list[Lease]]


def committed(repo: Repository) -> str:
    """The address of an object in a commit, and a branch beside it with another one."""
    address = repo.branch("main").put("a", b"x").address
    repo.branch("main").commit("one")
    side = repo.create_branch("side")
    side.put("s", b"s")
    side.commit("beside")
    return address


def claim_and_close(repo: Repository, address: str, before: Callable[[], object]) -> bool:
    """A run up to its promotion; whether it has its claim at the end."""
    before()
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        run.drop_staged()
        assert run.promote()
        return run.claimed() == 1


@pytest.mark.parametrize("copy_first", [True, False])
def test_of_a_copy_and_a_claim_one_sees_the_other(
    backend: Backend, repo: Repository, monkeypatch: pytest.MonkeyPatch, copy_first: bool
) -> None:
    address = committed(repo)
    other = backend.open().repository("sales")
    hook: tuple[Any, str] = (claims, "check_unclaimed")
    if not copy_first:
        # Right after the claim is saved, before it is closed.
        hook = (claimed_addresses, "count")
    reached = paused(monkeypatch, *hook)

    def copy() -> object:
        if not copy_first:
            reached.wait(20)
        return other.branch("main").copy("a", "b")

    def wait() -> None:
        if copy_first:
            reached.wait(20)

    copied, claimed = race(copy, lambda: claim_and_close(repo, address, wait))
    if copy_first:
        # The run had to wait for the copy, and found it staged.
        assert claimed is False, claimed
        assert other.branch("main").get("b") == b"x"
    else:
        assert claimed is True
        assert isinstance(copied, Conflict | Gone), copied


MAKERS: dict[str, tuple[Callable[[Repository], object], Any, str]] = {
    "branch": (lambda repo: repo.create_branch("archive"), refs, "insert_branch"),
    "tag": (lambda repo: repo.create_tag("v1", "main"), refs, "insert_tag"),
    "lease": (
        lambda repo: repo.take_lease("main~1", holder="me", length=timedelta(hours=1)),
        leases,
        "_values",
    ),
    "commit": (
        lambda repo: repo.branch("main").commit("two", allow_empty=True),
        committing,
        "check_open",
    ),
    "merge": (lambda repo: repo.branch("main").merge("side"), committing, "check_open"),
    "reset": (lambda repo: repo.branch("side").reset_to("main"), tokens, "drop_all"),
}


def name_and_promote(
    backend: Backend,
    repo: Repository,
    patch: pytest.MonkeyPatch,
    maker: str,
    *,
    maker_first: bool,
) -> tuple[object, object]:
    """Let somebody name a commit while a run promotes; returns what both came to."""
    address = committed(repo)
    other = backend.open().repository("sales")
    make, module, name = MAKERS[maker]
    hook = (module, name) if maker_first else (claimed_addresses, "_is_more_named")
    with claiming(repo) as run:
        run.claim(address)
        run.close()
        seen = run.seen()
        reached = paused(patch, *hook)

        def promote() -> bool:
            if maker_first:
                reached.wait(20)
            return run.promote(seen)

        def name_commit() -> object:
            if not maker_first:
                reached.wait(20)
            return make(other)

        named, promoted = race(name_commit, promote)
    return named, promoted


@pytest.mark.parametrize("maker_first", [True, False])
@pytest.mark.parametrize("maker", MAKERS)
def test_of_a_new_name_and_a_promotion_one_sees_the_other(
    backend: Backend,
    repo: Repository,
    monkeypatch: pytest.MonkeyPatch,
    maker: str,
    maker_first: bool,
) -> None:
    named, promoted = name_and_promote(backend, repo, monkeypatch, maker, maker_first=maker_first)
    # Nobody is refused: what came first decides whether the run has to look again.
    assert not isinstance(named, Exception), named
    assert promoted is not maker_first


@pytest.mark.parametrize(
    ("weak", "maker"),
    [
        ("share", "copy"),
        *(("share", maker) for maker in ("lease", "commit", "merge", "reset")),
        # Who makes a branch or a tag has the lock for itself.
        *(("exclude", maker) for maker in ("copy", "branch", "tag")),
    ],
)
def test_without_the_lock_a_race_is_lost(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock, weak: str, maker: str
) -> None:
    backend = make_backend("server", request, tmp_path, clock)
    repo = backend.init().create_repository("sales")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference_lock, weak, lambda *_: None)
        if maker == "copy":
            with pytest.raises(AssertionError):
                test_of_a_copy_and_a_claim_one_sees_the_other(backend, repo, patch, True)
        else:
            _, promoted = name_and_promote(backend, repo, patch, maker, maker_first=True)
            assert promoted is True
    backend.close()


def test_many_who_refer_do_not_starve_a_run(
    backend: Backend, repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = committed(repo)
    other = backend.open().repository("sales")
    stop = threading.Event()

    def copy() -> int:
        done = 0
        while not stop.is_set():
            other.branch("side").copy("s", f"s{done}")
            done += 1
        return done

    def claim() -> bool:
        try:
            with claiming(repo) as run:
                run.claim(address)
                for _ in range(5):
                    run.close()
                return run.promote()
        finally:
            stop.set()

    copied, promoted = race(copy, claim)
    assert promoted is True
    assert isinstance(copied, int)

"""Commits of which the past of schedules is made."""

from __future__ import annotations

from sqlalchemy import insert

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import LedgerState, ledger
from reclaim.catalog.refs import committing
from reclaim.catalog.refs.committing import Note
from reclaim.catalog.staging import tokens
from reclaim.testing import FakeClock


def seal(branch: Branch) -> None:
    """What a commit leaves that dies after its first step."""
    workspace = branch._workspace
    uid = workspace.repo_uid
    with workspace.partitions.use(uid) as partition, workspace.database.write() as connection:
        tokens.seal(connection, tokens.lock_branch(connection, uid, branch.name), partition.id)


def commit_without_cleaning(branch: Branch) -> str:
    """A commit of two tokens, of which the newer shadows a row of the older."""
    branch.put("c", b"shadowed c")
    seal(branch)
    branch.put("c", b"work c")
    note = Note("work", "", {})
    return committing.commit(branch._workspace, branch.name, note).id


def condemn_for_a_run(repo: Repository, address: str) -> None:
    """A row of the ledger that belongs to a run, which may think better of it."""
    row = {"address": address, "repo_uid": repo.uid, "created_at": 0, "condemned_at": 0}
    values = {"state": LedgerState.CONDEMNED, "run_id": "a-run", "rule": "a rule"}
    with repo._workspace.database.write() as connection:
        connection.execute(insert(ledger).values(**row, **values))


def dead_commits(repo: Repository, name: str, clock: FakeClock) -> str:
    """Two commits of a branch that was deleted; the newer takes back what the older added."""
    branch = repo.create_branch(name, "main")
    branch.put("a", f"{name} a".encode())
    branch.put(name, f"{name} added".encode())
    branch.commit(f"{name} added")
    branch.delete(name)
    newer = branch.commit(f"{name} taken back").id
    repo.delete_branch(name)
    clock.advance(hours=1)
    return newer


def commit_taken_back(repo: Repository, committed: str) -> str:
    """A commit that deletes what the one before it has at ``c``: to revert it brings that back."""
    branch = repo.create_branch("back", committed)
    branch.delete("c")
    return branch.commit("c taken back").id


def commit_others(repo: Repository) -> str:
    """Two commits with an object each that rules match besides; returns the first."""
    branch = repo.create_branch("other", "main")
    branch.put("c1", b"other c1")
    first = branch.commit("other c1").id
    branch.put("c2", b"other c2")
    branch.commit("other c2")
    return first

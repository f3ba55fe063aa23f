"""Commits in one line, and what they show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import update

from reclaim.catalog import Branch, Change, ChangeKind, Commit, Import, RefReader, Repository
from reclaim.catalog.database.schema import commits
from reclaim.catalog.staging import tokens

ADDED, REMOVED, CHANGED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED


def stage(branch: Branch, contents: Mapping[str, str]) -> None:
    """Stage entries that point outside, so that no bytes are needed."""
    branch.stage_many([Import(path, f"s3://outside/{text}", 1) for path, text in contents.items()])


def save(branch: Branch, contents: Mapping[str, str | None], message: str = "next") -> Commit:
    """Commit some contents; None deletes."""
    stage(branch, {path: text for path, text in contents.items() if text})
    branch.delete_many([path for path, text in contents.items() if text is None])
    return branch.commit(message, allow_empty=True)


def put_and_commit(branch: Branch, content: bytes, message: str = "next") -> Commit:
    """Commit one object that has bytes."""
    branch.put("a", content)
    return branch.commit(message)


def shown(reader: RefReader) -> dict[str, str]:
    return {entry.path: entry.address.rpartition("/")[2] for entry in reader.entries()}


def kinds(changes: Iterable[Change]) -> dict[str, ChangeKind]:
    found = list(changes)
    assert [change.path for change in found] == sorted(change.path for change in found)
    return {change.path: change.kind for change in found}


def mark(repo: Repository, commit: Commit) -> None:
    """What an expiration leaves on a commit whose parents it replaced."""
    with repo._workspace.database.write() as connection:
        connection.execute(
            update(commits)
            .where(commits.c.repo_uid == repo.uid, commits.c.id == commit.id)
            .values(marked=True)
        )


def seal(repo: Repository, branch: str = "main") -> None:
    """What a commit that crashed half-way leaves behind."""
    repo._workspace.database.transact(
        lambda connection: tokens.seal(
            connection, tokens.lock_branch(connection, repo.uid, branch), "partition"
        )
    )

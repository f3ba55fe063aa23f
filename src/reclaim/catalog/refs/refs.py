"""Branches and tags. They share a namespace and never name a condemned commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from reclaim.catalog.database.schema import branches, repositories, tags
from reclaim.catalog.names import check_ref_name
from reclaim.catalog.refs import commits
from reclaim.catalog.staging import tokens
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros
from reclaim.errors import AlreadyExists, Conflict, NotFound
from reclaim.ids import new_uid
from reclaim.model import RefKind


@dataclass(frozen=True, slots=True)
class NamedRef:
    """Branch or tag in a listing."""

    name: str
    kind: RefKind
    commit: str
    created_at: datetime
    default: bool = False


def list_branches(connection: Connection, repo_uid: str, default: str) -> list[NamedRef]:
    check_repository(connection, repo_uid)
    query = select(branches).where(branches.c.repo_uid == repo_uid).order_by(branches.c.name)
    return [_branch(row, default) for row in connection.execute(query)]


def list_tags(connection: Connection, repo_uid: str) -> list[NamedRef]:
    check_repository(connection, repo_uid)
    query = select(tags).where(tags.c.repo_uid == repo_uid).order_by(tags.c.name)
    return [_tag(row) for row in connection.execute(query)]


def _branch(row: Row[Any], default: str) -> NamedRef:
    created_at = from_micros(row.created_at)
    return NamedRef(row.name, RefKind.BRANCH, row.head, created_at, row.name == default)


def _tag(row: Row[Any]) -> NamedRef:
    return NamedRef(row.name, RefKind.TAG, row.commit_id, from_micros(row.created_at))


def list_all(connection: Connection, repo_uid: str, default: str) -> list[NamedRef]:
    """Return branches, then tags; none for a deleted repository."""
    heads = select(branches).where(branches.c.repo_uid == repo_uid).order_by(branches.c.name)
    marks = select(tags).where(tags.c.repo_uid == repo_uid).order_by(tags.c.name)
    return [
        *(_branch(row, default) for row in connection.execute(heads)),
        *(_tag(row) for row in connection.execute(marks)),
    ]


def create_branch(workspace: Workspace, name: str, source_ref: str) -> str:
    """Create a branch at a commit; return the commit's id."""
    check_ref_name(name, "branch")
    return _name_commit(workspace, name, source_ref, insert_branch)


def insert_branch(connection: Connection, repo_uid: str, name: str, head: str, now: int) -> None:
    """Insert a branch with an empty staging area. The caller must hold the commit."""
    uid = new_uid()
    token = tokens.new_token(connection, repo_uid, uid)
    connection.execute(
        insert(branches).values(
            repo_uid=repo_uid, name=name, uid=uid, head=head, token=token, created_at=now
        )
    )


def delete_branch(workspace: Workspace, name: str) -> None:
    """Delete a branch and its staged changes. Its commits stay until they are collected."""

    def work(connection: Connection) -> None:
        default = select(repositories.c.default_branch).where(
            repositories.c.uid == workspace.repo_uid
        )
        view = tokens.lock_branch(connection, workspace.repo_uid, name)
        if connection.execute(default).scalar_one() == name:
            raise Conflict(
                f"{name} is the default branch and cannot be deleted",
                hint="to delete everything, delete the repository",
            )
        tokens.drop_all(connection, view, reopen=False)
        connection.execute(delete(branches).where(branches.c.uid == view.uid))

    workspace.database.transact(work)


def create_tag(workspace: Workspace, name: str, ref: str) -> str:
    """Create a tag; return the commit's id."""
    check_ref_name(name, "tag")
    return _name_commit(workspace, name, ref, insert_tag)


def insert_tag(connection: Connection, repo_uid: str, name: str, commit: str, now: int) -> None:
    """Insert a tag. The caller must hold the commit."""
    connection.execute(
        insert(tags).values(repo_uid=repo_uid, name=name, commit_id=commit, created_at=now)
    )


def delete_tag(workspace: Workspace, name: str) -> None:
    """Delete a tag. The commit stays until it is collected."""
    gone = delete(tags).where(tags.c.repo_uid == workspace.repo_uid, tags.c.name == name)
    with workspace.database.write() as connection:
        if not connection.execute(gone).rowcount:
            raise NotFound(f"there is no tag {name!r}", hint="see `reclaim tag list`")


def _name_commit(
    workspace: Workspace,
    name: str,
    ref: str,
    insert_ref: Callable[[Connection, str, str, str, int], None],
) -> str:
    """Name the commit of a ref, under the necessary locks."""

    def work(connection: Connection) -> str:
        _lock_names(connection, workspace.repo_uid, name)
        commit = commits.resolve(connection, workspace.repo_uid, ref)
        commits.hold(connection, workspace.repo_uid, [commit.id])
        insert_ref(connection, workspace.repo_uid, name, commit.id, workspace.now())
        return commit.id

    return workspace.database.transact(work)


def _lock_names(connection: Connection, repo_uid: str, name: str) -> None:
    """Fail if a branch or a tag has this name; lock the name against others."""
    check_repository(connection, repo_uid, lock=True)
    for table, kind in ((branches, "branch"), (tags, "tag")):
        query = select(table.c.name).where(table.c.repo_uid == repo_uid, table.c.name == name)
        if connection.execute(query).first() is not None:
            raise AlreadyExists(f"{kind} {name!r} already exists", hint="choose another name")


def check_repository(connection: Connection, repo_uid: str, *, lock: bool = False) -> None:
    """Fail if a repository was deleted; with ``lock`` it cannot be deleted meanwhile.

    Creating a branch or a tag takes this lock. It is also the lock shared by everything that
    creates references (``reference_lock``), so no other reference is created meanwhile.
    """
    query = select(repositories.c.uid).where(
        repositories.c.uid == repo_uid, repositories.c.deleted_at.is_(None)
    )
    if connection.execute(query.with_for_update() if lock else query).first() is None:
        raise NotFound("the repository was deleted")

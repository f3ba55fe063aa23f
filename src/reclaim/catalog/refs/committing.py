"""Commit flow: seal, write containers, and land the commit in a single short transaction.

A crash before the last step leaves sealed tokens, which stay visible on the branch and become part
of the next commit, and containers, which garbage collection removes. Write transactions never do
work proportional to the size of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, update

from reclaim.catalog.content.range_writer import reusable_from, rewrite
from reclaim.catalog.database.schema import branches, staging_tokens
from reclaim.catalog.database.transactions import ATTEMPTS
from reclaim.catalog.names import check_text
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.reading import tree_of
from reclaim.catalog.staging import reference_lock, staged_rows, tokens
from reclaim.catalog.staging.partitions import Partition, advance_epoch, check_open
from reclaim.catalog.staging.tokens import View, ViewChanged
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, from_micros, to_micros
from reclaim.errors import ClockSkew, NothingToCommit, TransactionFailed
from reclaim.ids import new_uid
from reclaim.safety import SAFETY

CLOCK_TOLERANCE = SAFETY.clock_skew
AHEAD = CLOCK_TOLERANCE // MICROSECOND


@dataclass(frozen=True, slots=True)
class Note:
    """Message, committer and metadata of a commit."""

    message: str
    committer: str
    metadata: Mapping[str, str]

    def __post_init__(self) -> None:
        check_text(self.message, self.committer, *self.metadata, *self.metadata.values())


@dataclass(frozen=True, slots=True)
class Draft:
    """Commit ready to land: its containers are written."""

    view: View
    parents: Sequence[Commit]
    metarange: str
    note: Note
    begun_at: datetime
    """Local time before the first container was written."""
    newest_entry: int = 0
    taken_from: Sequence[Commit] = ()


def commit(workspace: Workspace, branch: str, note: Note, *, allow_empty: bool = False) -> Commit:
    """Commit the staged changes of a branch."""
    with workspace.database.read() as connection:
        # Checked before opening a partition.
        view = tokens.read_view(connection, workspace.repo_uid, branch)
        if not allow_empty:
            _check_changes(connection, view)
    sealed_before: list[Sealed] = []

    def write(partition: Partition) -> Commit:
        if sealed_before:
            sealed = workspace.database.transact(
                lambda connection: _announce(
                    connection, workspace, branch, partition, sealed_before[0]
                )
            )
        else:
            sealed = workspace.database.transact(
                lambda connection: _seal(connection, workspace, branch, partition, allow_empty)
            )
            sealed_before.append(sealed)
        workspace.partitions.write_epoch_marker(partition, sealed.epoch)
        return _repeat(workspace, sealed, note, partition)

    return workspace.partitions.write(workspace.repo_uid, write)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Tokens to commit, and the epoch counted for the commit.

    ``changes`` are the sealed tokens with rows: empty tokens of other commits may be withdrawn in
    the meantime.
    """

    view: View
    changes: tuple[tuple[int, int], ...]
    epoch: int


def _seal(
    connection: Connection,
    workspace: Workspace,
    branch: str,
    partition: Partition,
    allow_empty: bool,
) -> Sealed:
    epoch = advance_epoch(connection, partition)
    view = tokens.lock_branch(connection, workspace.repo_uid, branch)
    if staged_rows.has_rows(connection, [view.open_token]):
        view = tokens.seal(connection, view, partition.id)
    else:
        if not allow_empty:
            _check_changes(connection, view)
        if view.sealed:
            view = tokens.announce(connection, view, partition.id)
    changes = tuple(token for token in view.sealed if staged_rows.has_rows(connection, [token[0]]))
    return Sealed(view, changes, epoch)


def _announce(
    connection: Connection, workspace: Workspace, branch: str, partition: Partition, earlier: Sealed
) -> Sealed:
    """Name another partition for a commit that lost its first partition."""
    epoch = advance_epoch(connection, partition)
    view = tokens.lock_branch(connection, workspace.repo_uid, branch)
    if not set(earlier.changes) <= set(view.sealed):
        raise _taken(connection, earlier.changes, branch)
    if view.sealed:
        view = tokens.announce(connection, view, partition.id)
    return Sealed(view, earlier.changes, epoch)


def _check_changes(connection: Connection, view: View) -> None:
    if not staged_rows.has_rows(connection, view.tokens):
        raise NothingToCommit(
            f"there is nothing to commit on {view.name}", hint="put or delete something first"
        )


def _repeat(workspace: Workspace, sealed: Sealed, note: Note, partition: Partition) -> Commit:
    view = sealed.view
    for _ in range(ATTEMPTS):
        try:
            return _write_and_land(workspace, view, note, partition)
        except ViewChanged:
            # Another commit sealed more tokens or took ours. Ours are lost only if they are
            # no longer sealed exactly as we sealed them.
            with workspace.database.read() as connection:
                view = tokens.read_view(connection, workspace.repo_uid, view.name)
                if not set(sealed.changes) <= set(view.sealed):
                    raise _taken(connection, sealed.changes, view.name) from None
                named = tokens.names_partition(connection, view, partition.id)
            if view.sealed and not named:
                # Nothing was sealed before; now write the tokens sealed by others.
                view = _announce_again(workspace, sealed, partition)
    raise TransactionFailed(
        f"the branch {view.name} kept changing while it was being committed", hint="run it again"
    )


def _announce_again(workspace: Workspace, sealed: Sealed, partition: Partition) -> View:
    announced = workspace.database.transact(
        lambda connection: _announce(connection, workspace, sealed.view.name, partition, sealed)
    )
    workspace.partitions.write_epoch_marker(partition, announced.epoch)
    return announced.view


def _write_and_land(workspace: Workspace, view: View, note: Note, partition: Partition) -> Commit:
    begun_at = workspace.clock.now()
    with workspace.database.read() as connection:
        head = commits.get(connection, workspace.repo_uid, view.head)
        newest = _Newest()
        metarange = head.metarange
        if view.sealed:
            base = tree_of(workspace, head)
            _, metarange = rewrite(
                base,
                newest.watch(staged_rows.rows(connection, view.tokens[1:])),
                storage=workspace.storage,
                partition=partition,
                reusable=reusable_from([base]),
            )
    draft = Draft(view, [head], metarange, note, begun_at, newest.created_at)
    return land(workspace, draft, partition)


class _Newest:
    """Records the latest creation date in a stream of changes."""

    created_at = 0

    def watch(self, changes: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        for change in changes:
            if change[3] > self.created_at:
                self.created_at = change[3]
            yield change


def land(workspace: Workspace, draft: Draft, partition: Partition) -> Commit:
    """Make a draft the head of its branch, in a transaction checking everything it depends on."""
    if draft.metarange and draft.metarange != draft.parents[0].metarange:
        _check_clock(workspace, draft)

    def work(connection: Connection) -> Commit:
        reference_lock.share(connection, workspace.repo_uid)
        tokens.lock_view(connection, draft.view, exclusive=True)
        check_open(connection, partition)
        landed = Commit(
            id=new_uid(),
            parents=tuple(parent.id for parent in draft.parents),
            metarange=draft.metarange,
            written_at=from_micros(_written_at(workspace, draft)),
            committer=draft.note.committer,
            message=draft.note.message,
            metadata=dict(draft.note.metadata),
        )
        source_ids = [source.id for source in draft.taken_from]
        commits.save(connection, workspace.repo_uid, landed, taken_from=source_ids)
        connection.execute(
            update(branches).where(branches.c.uid == draft.view.uid).values(head=landed.id)
        )
        tokens.take(connection, draft.view, landed.id)
        return landed

    return workspace.database.transact(work)


def _written_at(workspace: Workspace, draft: Draft) -> int:
    """Latest of now, the parents' time plus 1 µs, and the entries' time plus 1 µs."""
    now = workspace.now()
    sources = [*draft.parents, *draft.taken_from]
    after = [to_micros(source.written_at) + 1 for source in sources]
    written_at = max(now, draft.newest_entry + 1, *after)
    if written_at - now > AHEAD:
        raise ClockSkew(
            f"this commit depends on data written at {from_micros(written_at):%F %T} UTC, "
            f"in the future: the clock of this machine says {from_micros(now):%F %T}",
            hint="correct the clock, then commit again; the changes are still staged",
        )
    return written_at


def _check_clock(workspace: Workspace, draft: Draft) -> None:
    """Compare the local clock with the storage's, using the last written object.

    The object was written after the draft was begun and before now, however long the write took.
    """
    stored = workspace.storage.head(draft.metarange).last_modified
    now = workspace.clock.now()
    if not draft.begun_at - CLOCK_TOLERANCE <= stored <= now + CLOCK_TOLERANCE:
        raise ClockSkew(
            f"the clock of this machine says {now:%F %T} UTC, that of the storage {stored:%F %T}; "
            "at most five minutes of difference are allowed",
            hint="correct the clock, then commit again; the changes are still staged",
        )


def _taken(
    connection: Connection, tokens: Sequence[tuple[int, int]], branch: str
) -> TransactionFailed:
    query = select(staging_tokens.c.commit_id).where(
        staging_tokens.c.id.in_([token for token, _ in tokens]),
        staging_tokens.c.commit_id.is_not(None),
    )
    taker = connection.execute(query.limit(1)).scalar()
    if taker:
        return TransactionFailed(
            f"the changes on {branch} were committed by {taker}, which ran at the same time",
            hint="nothing is left to do unless more was staged since",
            commit=taker,
        )
    return TransactionFailed(
        f"the changes on {branch} were reset, or the branch was deleted, during the commit",
        hint="stage them again if they are still needed",
    )

"""What a collector may do to one repository, deleted ones included."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from reclaim.catalog import addresses
from reclaim.catalog.collection import (
    commit_states,
    epochs,
    history_edit,
    leftovers,
    locks,
    observing,
    plans,
    records,
    rollback,
    undoing,
)
from reclaim.catalog.collection.history_edit import HistoryEdit
from reclaim.catalog.collection.locks import Lock
from reclaim.catalog.collection.observing import Roots
from reclaim.catalog.collection.undoing import Restored, TakenCommit
from reclaim.catalog.refs import leases
from reclaim.catalog.staging import cleaner, partitions
from reclaim.catalog.workspace import Workspace
from reclaim.clock import Clock
from reclaim.errors import LockLost
from reclaim.ids import new_uid
from reclaim.model import Lease, Run, RunState, SnapshotId
from reclaim.storage import Storage


class Collecting:
    """The door of the collector. Everything that it changes is a change of state in a row."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        default_branch: str,
        created_at: datetime,
        *,
        deleted: bool,
    ) -> None:
        self._workspace = workspace
        self.created_at = created_at
        self._default_branch = default_branch
        self.name = name
        self.uid = workspace.repo_uid
        self.deleted = deleted
        self._held: Lock | None = None

    @property
    def storage(self) -> Storage:
        return self._workspace.storage

    @property
    def clock(self) -> Clock:
        return self._workspace.clock

    @property
    def prefix(self) -> str:
        """Everything of the repository lies below this."""
        return addresses.repository(self.uid)

    def observe(self, destination: Storage, prefix: str, *, settled: bool = False) -> Roots:
        """Read all roots in one snapshot; see ``observing``."""
        return observing.observe(
            self._workspace, self._default_branch, destination, prefix, settled=settled
        )

    def staged(self) -> Iterator[Mapping[str, Any]]:
        """The staged entries of objects that lie in the repository, as they are now."""
        return observing.staged(self._workspace)

    @contextmanager
    def lock(self, run_id: str) -> Iterator[Lock]:
        """Exclude every other apply, undo and purge; what changes commits needs it."""
        with locks.hold(self._workspace, run_id) as held:
            self._held = held
            try:
                yield held
            finally:
                self._held = None

    def _lock(self) -> Lock:
        if self._held is None:
            raise LockLost("the lock of the repository is not held", hint="take it first")
        return self._held

    def _assure(self, connection: Connection) -> None:
        """Fail in a transaction of a run that has lost its lock; some need none."""
        if self._held is not None:
            self._held.assure(connection)

    def check_epoch(self) -> None:
        """Refuse when the storage has been written by a newer copy of the database."""
        epochs.check_epoch(self._workspace.database, self._workspace.storage, self.uid)

    def check_home(self) -> None:
        """Refuse when the storage is the home of another database; see ``homes``."""
        self._workspace.home.check()

    def bump_epoch(self, run_id: str) -> None:
        """Check epoch and home, and count one on, so that a clone of the database is noticed.

        In a deleted repository nobody counts on: nothing can be written there any more.
        """
        workspace = self._workspace
        older = epochs.check_epoch(workspace.database, workspace.storage, self.uid)
        workspace.home.claim()
        workspace.home.check()
        self._count_epoch(run_id, older)

    def _count_epoch(self, run_id: str, older: Collection[int]) -> None:
        if self.deleted:
            return
        workspace = self._workspace
        # Two copies of the database may apply one plan: the writer's name tells them apart.
        writer = f"{run_id}:{new_uid()}"
        epoch = workspace.database.transact(
            lambda connection: epochs.count_epoch(connection, self.uid, writer)
        )
        workspace.partitions.epochs.leave(self.uid, epoch, writer, older)

    def start(self, run: Run) -> None:
        """Record that a run has started; one that was started before goes on."""

        def work(connection: Connection) -> None:
            self._assure(connection)
            if records.find_run(connection, self.uid, run.id) is None:
                records.insert_run(connection, self._workspace, run)
            else:
                records.finish_run(connection, self.uid, run.id, RunState.STARTED, {**run.summary})

        self._workspace.database.transact(work)

    def rewrite(self, run_id: str, edit: HistoryEdit) -> None:
        """Apply a run's edit of the history whole; what is in place already counts as done."""

        def work(connection: Connection) -> None:
            self._assure(connection)
            history_edit.edit_history(connection, self._workspace, run_id, edit)

        self._workspace.database.transact(work)

    def undo_rewrite(self, run_id: str) -> list[str]:
        """Take the edit of a run back that condemned nothing; see ``undoing``."""
        return undoing.undo_rewrite(self._workspace, self._lock(), run_id)

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        """Record how far a run came; not one that lost its lock, for another may have gone on."""

        def work(connection: Connection) -> None:
            self._assure(connection)
            records.finish_run(connection, self.uid, run_id, state, summary)

        self._workspace.database.transact(work)

    def release_leftovers(self) -> int:
        """Take off all provisional marks, and take back the edits of runs that died."""
        return leftovers.release_under(self._workspace, self._lock())

    def roll_back(self, run_id: str) -> Sequence[str] | None:
        """Take the edit of a run back that stops; see ``rollback``."""
        return rollback.roll_back(self._workspace, self._lock(), run_id)

    def mark(self, rules: Mapping[str, str]) -> int:
        """Mark commits provisionally, each with the rule that takes it."""
        return commit_states.mark(self._workspace, self._lock(), rules)

    def release(self, ids: Collection[str]) -> None:
        """Take the marks off commits that are live after all."""
        commit_states.release(self._workspace, self._lock(), ids)

    def promote(self) -> int:
        """Make the marks terminal."""
        return commit_states.promote(self._workspace, self._lock())

    def close_overdue(self) -> int:
        return commit_states.close_overdue(self._workspace)

    def expire_uploads(self) -> int:
        return commit_states.expire_uploads(self._workspace)

    def collect(self, ids: Collection[str]) -> int:
        """Reduce condemned commits, whose bytes are gone, to a note of what took them.

        Not those of which another run has set something aside: that run can be undone.
        """
        lock = self._lock()
        aside = [run.id for run in self.runs() if run.quarantine and run.id != lock.run_id]
        return commit_states.collect(self._workspace, lock, ids, but_of=aside)

    def set_aside(self, ids: Collection[str]) -> int:
        """Note of condemned commits that their objects were set aside.

        Not those of another run that can be undone: that brings them back.
        """
        lock = self._lock()
        others = [run.id for run in self.runs() if run.quarantine and run.id != lock.run_id]
        return commit_states.set_aside(self._workspace, lock, ids, but_of=others)

    def forget(self, run_id: str) -> int:
        """Reduce the commits whose objects a run had set aside, which are deleted by now."""
        return commit_states.forget(self._workspace, self._lock(), run_id)

    def waiting(self, run_id: str) -> list[str]:
        """The metaranges of commits that a run condemned and has not set aside."""
        with self._workspace.database.read() as connection:
            return undoing.waiting(connection, self.uid, run_id)

    def taken(self, run_id: str) -> Mapping[SnapshotId, TakenCommit]:
        """The commits that a run condemned or set aside."""
        return undoing.taken(self._workspace, run_id)

    def restore(
        self, run_id: str, whole: Collection[str], hold: timedelta, *, complete: bool
    ) -> Restored:
        """Make commits of a run live again; see ``undoing``."""
        return undoing.restore(
            self._workspace, self._lock(), run_id, whole, hold, complete=complete
        )

    def find_run(self, run_id: str) -> Run | None:
        with self._workspace.database.read() as connection:
            return records.find_run(connection, self.uid, run_id)

    def note_plan(self, run_id: str, digest: str) -> None:
        """Note what a plan hashes to."""
        workspace = self._workspace
        workspace.database.transact(
            lambda connection: plans.note_plan(
                connection, self.uid, run_id, digest, workspace.clock.now()
            )
        )

    def noted_plan(self, run_id: str) -> str | None:
        """What a plan hashed to when it was made, if that was noted."""
        with self._workspace.database.read() as connection:
            return plans.noted_plan(connection, self.uid, run_id)

    def clean(self) -> None:
        """Remove the rows of changes that were committed or reset, and what runs left that died."""
        leftovers.release(self._workspace)
        cleaner.clean(self._workspace.database, self._workspace.clock, self.uid)

    def runs(self) -> list[Run]:
        """What was done to the repository, the newest first."""
        with self._workspace.database.read() as connection:
            return records.list_runs(connection, self.uid)

    def working(self) -> str | None:
        """The run that holds the lock, if one does."""
        with self._workspace.database.read() as connection:
            return locks.holder(connection, self._workspace)

    def lapsed(self) -> list[Lease]:
        """Leases that hold nothing any more and were not given back."""
        workspace = self._workspace
        with workspace.database.read() as connection:
            now = workspace.database.now(connection, workspace.clock)
            return [
                lease
                for lease in leases.list_leases(connection, self.uid)
                if not lease.valid_at(now)
            ]

    def adopt(self, run_id: str, unknown: Collection[str]) -> None:
        """Register partitions that only the storage knows, as closed, and go on from its epoch.

        The database becomes the home of the storage. For a person who knows that it is the right
        one: what it does not refer to in those partitions will be collected.
        """
        workspace = self._workspace
        with self.lock(run_id):
            workspace.database.transact(
                lambda connection: partitions.adopt(connection, self.uid, unknown, workspace.now())
            )
            older = epochs.adopt_epoch(workspace.database, workspace.storage, self.uid)
            self._count_epoch(run_id, older)
            workspace.home.register()

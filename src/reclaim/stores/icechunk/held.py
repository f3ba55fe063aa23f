"""A repository whose lock is held.

Lists beside the repository say what is condemned. In spec 2 ``repo`` follows them: what is on a
list is taken out of it, so that nobody can refer to it any more, and put back if it is released. In
spec 1 nothing can keep a writer from a snapshot; the margins and a second look protect it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reclaim.errors import Conflict
from reclaim.model import SnapshotId
from reclaim.stores.icechunk import history as histories
from reclaim.stores.icechunk.addresses import SNAPSHOTS
from reclaim.stores.icechunk.format import SNAPSHOT, IcechunkFormat
from reclaim.stores.icechunk.observing import Observer
from reclaim.stores.icechunk.repo_editor import RepoEditor
from reclaim.stores.sidecar.condemned import Condemnation
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.sidecar import Sidecar


class HeldIcechunk(HeldSidecar):
    """The handle of a repository under its lock."""

    def __init__(self, lock: SidecarLock, sidecar: Sidecar, observer: Observer) -> None:
        super().__init__(lock, sidecar.lists, sidecar.records, sidecar.leases)
        self._observer = observer
        self._withdrawn = observer.withdrawn
        self._editor: RepoEditor | None = None
        if observer.format.spec > 1:
            self._editor = RepoEditor(
                observer.storage, observer.format, observer.withdrawn, observer.clock
            )

    @property
    def _format(self) -> IcechunkFormat:
        return self._observer.format

    def begin(self) -> None:
        super().begin()
        self._follow_lists()

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        leased = {lease.snapshot for lease in self._leases.valid(self._observer.clock.now())}
        named = self._tips() | leased
        free = {one: rule for one, rule in rules.items() if one not in named}
        super().condemn(free)
        # A ref may have been made there before it was taken out.
        kept = self._follow_lists() & free.keys()
        if kept:
            super().release(kept)
        return len(free) - len(kept)

    def promote(self) -> int:
        """Make what is provisional terminal, if ``repo`` still does not list it.

        On a disk a writer may have put an older ``repo`` in its place.
        """
        run = self._working()
        back = self._follow_lists() & self._lists.of(run, Condemnation.PROVISIONAL).keys()
        if back:
            raise Conflict(
                f"something refers to the snapshot {min(back)} again, which was to be removed",
                hint="nothing was deleted; apply the plan again",
            )
        return super().promote()

    def release(self, ids: Collection[SnapshotId]) -> None:
        """Release snapshots; in spec 1 also those that were condemned for good and that a ref
        reaches: no writer reads the lists."""
        reached = self._observer.last_reached if self._editor is None else ()
        self._release(ids, reached)
        self._follow_lists()

    def abandon(self) -> None:
        super().abandon()
        self._follow_lists()

    def collect(self, ids: Collection[SnapshotId]) -> int:
        self._working()
        self._withdrawn.remove(self._condemned_by_others(ids, excluding=self._undoable()).keys())
        return super().collect(ids)

    def forget(self, run_id: str) -> int:
        self._working()
        self._withdrawn.remove(self._lists.taken_by(run_id).keys())
        return super().forget(run_id)

    # The way back

    def _brought_back(self, run_id: str, ids: Collection[SnapshotId]) -> None:  # noqa: ARG002
        self._follow_lists()

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        return {
            one: {SNAPSHOT: self._format.address(SNAPSHOTS, one)} for one in self._left_by_others()
        }

    # The file ``repo``

    def _tips(self) -> set[SnapshotId]:
        storage, prefix = self._observer.storage, self._format.prefix
        if self._editor is None:
            refs = histories.read_refs(storage, prefix)
        else:
            refs = histories.of_repo(self._observer.read_repo()).refs
        return {ref.snapshot for ref in refs}

    def _follow_lists(self) -> frozenset[SnapshotId]:
        """Let ``repo`` follow the lists; what is on one and referred to nevertheless."""
        if self._editor is None:
            return frozenset()
        listed = {
            one
            for lists in self._lists.all().values()
            for state in Condemnation
            for one in lists.get(state, {})
        }
        return self._editor.follow(listed, self.lock.check)

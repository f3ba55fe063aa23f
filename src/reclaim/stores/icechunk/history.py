"""History of a repository, for either spec: refs, snapshots, and additional dependencies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Conflict, Corrupt, NotFound
from reclaim.model import Lease, Ref, RefKind, Snapshot, SnapshotId
from reclaim.storage import Storage
from reclaim.stores.format import Reader
from reclaim.stores.icechunk.addresses import REFS, SNAPSHOTS
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.ref_files import decode_ref, find_refs
from reclaim.stores.icechunk.repo_file import RepoFile
from reclaim.stores.icechunk.survey import noted

DEFAULT_BRANCH = "main"
ROUNDS = 10
"""Maximum number of reads of changing refs."""


@dataclass(frozen=True, slots=True)
class IcechunkHistoryRead:
    """History of a repository from a consistent read, as the basis of an edit."""

    snapshots: Sequence[Snapshot]
    refs: Sequence[Ref]
    busy: frozenset[str] = frozenset()
    returned: Sequence[Lease] = ()
    count: int = 0
    editor: str | None = None


@dataclass(frozen=True, slots=True)
class RepositoryHistory:
    """History of a repository, as read from its files."""

    refs: Sequence[Ref]
    snapshots: Mapping[SnapshotId, Snapshot]
    count: int
    """Expected number of snapshots, including faults: from names, or from the length of a list."""
    pruned: Mapping[SnapshotId, Sequence[str]] = field(default_factory=dict)
    """Removed ancestors of snapshots whose transaction logs are still needed."""
    faults: Mapping[SnapshotId, str] = field(default_factory=dict)
    """Unreadable snapshots, with the reason. They are not in ``snapshots``."""
    busy: frozenset[str] = frozenset()

    def read(self) -> IcechunkHistoryRead:
        """History as the basis of decisions."""
        count = self.count - len(self.faults)
        return IcechunkHistoryRead(tuple(self.snapshots.values()), tuple(self.refs), count=count)

    def reached(self, roots: Iterable[SnapshotId]) -> set[SnapshotId]:
        """Snapshots reachable from the roots, including the roots."""
        reached: set[SnapshotId] = set()
        waiting = list(roots)
        while waiting:
            snapshot = waiting.pop()
            if snapshot not in reached and snapshot in self.snapshots:
                reached.add(snapshot)
                waiting += self.snapshots[snapshot].parents
        return reached


def of_repo(repo: RepoFile) -> RepositoryHistory:
    """History stored in the file ``repo``."""
    return RepositoryHistory(
        refs=tuple(_refs(repo.branches, repo.tags)),
        snapshots={
            SnapshotId(info.id): Snapshot(
                SnapshotId(info.id),
                (SnapshotId(info.parent),) if info.parent else (),
                info.written_at,
                message=info.message,
            )
            for info in repo.snapshots
        },
        count=repo.count,
        pruned={SnapshotId(info.id): info.pruned for info in repo.snapshots if info.pruned},
    )


def read_refs(storage: Storage, prefix: str) -> Sequence[Ref]:
    """Refs of a repository of spec 1, each in its own file.

    They cannot be read atomically. A single read could miss a branch created from another branch
    which is then reset; so refs are read until two consecutive reads agree.
    """
    before = _read_refs(storage, prefix)
    for _ in range(ROUNDS):
        refs = _read_refs(storage, prefix)
        if refs is not None and refs == before:
            return refs
        before = refs
    raise Conflict(
        f"the branches and tags of {prefix.rstrip('/')} changed during every read",
        hint="run it again when fewer of them change",
    )


def _read_refs(storage: Storage, prefix: str) -> Sequence[Ref] | None:
    """Refs; None if a ref was deleted during the read."""
    folder = f"{prefix}{REFS}"
    listed = find_refs((stored.address for stored in storage.list(folder)), folder)
    tips: dict[RefKind, dict[str, str]] = {RefKind.BRANCH: {}, RefKind.TAG: {}}
    with ThreadPoolExecutor(max(storage.reads_at_once, 1)) as readers:
        try:
            files = list(readers.map(storage.get, listed.files.values()))
        except NotFound:
            return None
    for ((kind, name), address), data in zip(listed.files.items(), files, strict=True):
        tips[kind][name] = decode_ref(data, address)
    return tuple(sorted(_refs(*tips.values()), key=lambda ref: (ref.kind, ref.name)))


def of_files(
    refs: Sequence[Ref],
    rows: pa.Table,
    named: Collection[SnapshotId],
    format: IcechunkFormat,
    reader: Reader,
) -> RepositoryHistory:
    """History stored in snapshot files, from a survey.

    Snapshots ``named`` in a later listing or reached by refs, but missing in the survey, are newer
    than the survey and are read now. They must exist; unreferenced snapshots may have lost their
    parents to an earlier collection.
    """
    snapshots: dict[SnapshotId, Snapshot] = {}
    faults: dict[SnapshotId, str] = {}
    _add(rows, snapshots, faults)
    count: int = pc.count_distinct(rows.column("id")).as_py()
    tips = {ref.snapshot for ref in refs}
    while unread := _named(tips, snapshots).union(named) - snapshots.keys() - faults.keys():
        addresses = [format.address(SNAPSHOTS, snapshot) for snapshot in sorted(unread)]
        count += len(addresses)
        _add(reader.snapshots(format, addresses), snapshots, faults)
        if lost := unread - snapshots.keys() - faults.keys():
            raise Corrupt(f"{len(lost)} snapshots were not read: {min(lost)}")
    history = RepositoryHistory(refs, snapshots, count, faults=faults)
    if damaged := faults.keys() & _named(tips, snapshots):
        id = min(damaged)
        raise Corrupt(
            f"the snapshot {id}, which a branch or tag reaches, cannot be used: {faults[id]}",
            hint="restore it from a backup; nothing was deleted",
        )
    for snapshot in list(snapshots.values()):
        if not snapshots.keys() >= set(snapshot.parents):
            snapshots[snapshot.id] = replace(snapshot, parents=())
    return history


def _add(
    rows: pa.Table, snapshots: dict[SnapshotId, Snapshot], faults: dict[SnapshotId, str]
) -> None:
    for row in rows.select(["id", "parent", "note", "fault"]).to_pylist():
        if row["id"] is None:
            continue
        id = SnapshotId(row["id"])
        if row["fault"] is not None:
            faults[id] = row["fault"]
            continue
        faults.pop(id, None)
        written_at, message = noted(row["note"])
        parents = (SnapshotId(row["parent"]),) if row["parent"] else ()
        snapshots[id] = Snapshot(id, parents, written_at, message=message)


def _named(
    tips: Collection[SnapshotId], snapshots: Mapping[SnapshotId, Snapshot]
) -> set[SnapshotId]:
    return reached_from(tips, {id: snapshot.parents for id, snapshot in snapshots.items()})


def parents_in(rows: pa.Table) -> dict[SnapshotId, Sequence[SnapshotId]]:
    """Parents of surveyed snapshots; empty for unreadable snapshots."""
    return {
        SnapshotId(row["id"]): (SnapshotId(row["parent"]),) if row["parent"] else ()
        for row in rows.select(["id", "parent"]).to_pylist()
        if row["id"] is not None
    }


def reached_from(
    tips: Collection[SnapshotId], parents: Mapping[SnapshotId, Sequence[SnapshotId]]
) -> set[SnapshotId]:
    """Snapshots reached by tips, including unknown snapshots at the ends."""
    named: set[SnapshotId] = set()
    waiting = list(tips)
    while waiting:
        snapshot = waiting.pop()
        if snapshot not in named:
            named.add(snapshot)
            waiting += parents.get(snapshot, ())
    return named


def _refs(branches: Mapping[str, str], tags: Mapping[str, str]) -> Iterator[Ref]:
    for name, tip in branches.items():
        yield Ref(name, RefKind.BRANCH, SnapshotId(tip), default=name == DEFAULT_BRANCH)
    for name, tip in tags.items():
        yield Ref(name, RefKind.TAG, SnapshotId(tip))

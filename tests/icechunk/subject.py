"""A repository under the contract of stores: what goes around the adapter goes through the library.

The library writes in real time. The clock of the test goes far behind it, because the library
refuses to write after an update of the future; its files get the time of that clock, less an hour.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import icechunk

from reclaim.errors import Gone
from reclaim.model import RefKind, SnapshotId
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.base import Store
from reclaim.stores.icechunk import library
from reclaim.stores.icechunk.manifest_file import decode_manifest
from reclaim.stores.icechunk.object_ids import names
from reclaim.stores.icechunk.repo_document import RepoDocument
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.icechunk.withdrawn import WithdrawnSnapshots
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.testing.stores import InterruptedStorage
from reclaim.urls import normalize
from tests.icechunk.repositories import FOLDERS, WrittenRepository
from tests.icechunk.written_at import set_written_at


def _config(spec: int) -> icechunk.RepositoryConfig | None:
    """In spec 2 one with a log that soon goes on in backups."""
    if spec == 1:
        return None
    return icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=0, num_updates_per_repo_info_file=5
    )


class IcechunkSubject:
    def __init__(self, folder: Path, spec: int) -> None:
        self._written = WrittenRepository.create(folder / "repository", spec, _config(spec))
        self._spec = spec
        self._made = 0
        self._clock = FakeClock(datetime.now(UTC) - timedelta(days=2_000))
        self._storage = ClockedStorage(ObjectStorage.open(normalize(str(folder))), self._clock)
        self._stamp()
        self.store: Store = self._open(self._storage)

    def _open(self, storage: Storage) -> IcechunkStore:
        return IcechunkStore(str(self._written.folder), clock=self._clock, storage=storage)

    def _stamp(self) -> None:
        """Give the files that the library has just written the time of the clock, and snapshots
        as the time at which they were written."""
        written_at = self._clock.now() - timedelta(hours=1)
        set_written_at(self._written, written_at, after=self._clock.now())
        for folder in (*FOLDERS, "overwritten"):
            for file in (self._written.folder / folder).glob("*"):
                if file.stat().st_mtime > self._clock.now().timestamp():
                    os.utime(file, (written_at.timestamp(), written_at.timestamp()))

    def another(self) -> Store:
        return self._open(self._storage)

    def interrupted(self, call: Callable[[], None]) -> Store:
        return self._open(InterruptedStorage(self._storage, call))

    def objects(self) -> set[str]:
        return {
            f"repository/{folder}/{name}"
            for folder in FOLDERS
            for name in self._written.names(folder)
        }

    def _write(self, array: str, branch: str = "main") -> SnapshotId:
        self._made += 1
        # What others wrote is seen by who opens the repository again.
        self._written = self._written.reopened()
        made = SnapshotId(self._written.write(self._made, array, branch=branch, chunks=2))
        self._stamp()
        return made

    def live(self) -> SnapshotId:
        return self._write("a")

    def live_otherwise(self) -> Mapping[str, SnapshotId]:
        side, _ = self._on_branch("side")
        on_branch = self._write("b", side)
        branch, tagged = self._on_branch("tagged")
        self._written.repository.create_tag("v1", tagged)
        self._written.repository.delete_branch(branch)
        return {"branch": on_branch, "tag": tagged}

    def _on_branch(self, name: str) -> tuple[str, SnapshotId]:
        """A branch of its own, and a snapshot there."""
        self._made += 1
        branch = f"{name}-{self._made}"
        self._written = self._written.reopened()
        self._written.branch(branch, self._written.tip())
        return branch, self._write(f"c{self._made}", branch)

    def dead(self) -> SnapshotId:
        branch, made = self._on_branch("old")
        self._written.repository.delete_branch(branch)
        return made

    def name(self, snapshot: SnapshotId) -> None:
        """In spec 1 a file is enough; in spec 2 a ``repo`` is put back that has the snapshot."""
        folder = self._written.folder
        if self._spec == 1:
            ref = folder / "refs/branch.again/ref.json"
            ref.parent.mkdir(parents=True)
            ref.write_text(json.dumps({"snapshot": snapshot}))
            return
        withdrawn = WithdrawnSnapshots(self._storage, "repository/_reclaim/").read()
        document = RepoDocument.read((folder / "repo").read_bytes(), "repo")
        document = document.with_entries({snapshot: withdrawn[snapshot].entry})
        refs = {**document.refs(), (RefKind.BRANCH, "again"): snapshot}
        (folder / "repo").write_bytes(document.with_refs(refs).encode())

    def below(self, snapshot: SnapshotId) -> Collection[SnapshotId]:
        return ()

    def dead_pair(self) -> tuple[SnapshotId, SnapshotId]:
        branch, first = self._on_branch("old")
        self._clock.advance(days=10)
        second = self._write(f"d{self._made}", branch)
        self._written.repository.delete_branch(branch)
        # What is young keeps its ancestors.
        self._clock.advance(days=2)
        return first, second

    def needs(self, snapshot: SnapshotId) -> Mapping[str, str]:
        self._written = self._written.reopened()
        needed = {f"repository/snapshots/{snapshot}": "snapshot"}
        if not self._has_children(snapshot):
            needed[f"repository/transactions/{snapshot}"] = "transaction log"
        for id, _, _ in self._written.manifests(snapshot):
            address = f"repository/manifests/{id}"
            needed[address] = "manifest"
            manifest = decode_manifest(self._written.data("manifests", id), address)
            chunks = names(manifest.chunks, "repository/chunks/").to_pylist()
            needed |= dict.fromkeys(chunks, "data")
        return needed

    def _has_children(self, snapshot: SnapshotId) -> bool:
        """Whether its log may be needed by others: in spec 2, if it expires, its children do."""
        if self._spec == 1:
            return False
        repo = decode_repo((self._written.folder / "repo").read_bytes(), "repo")
        return any(info.parent == snapshot for info in repo.snapshots)

    def swept(self, snapshot: SnapshotId) -> None:
        for folder in ("snapshots", "transactions"):
            (self._written.folder / folder / snapshot).unlink()

    def usable(self, snapshot: SnapshotId) -> bool:
        if self._spec == 1:
            return self._leasable(snapshot)
        written = self._written.reopened()
        try:
            written.repository.create_branch("used", snapshot)
        except icechunk.IcechunkError:
            return False
        written.repository.delete_branch("used")
        return True

    def _leasable(self, snapshot: SnapshotId) -> bool:
        """Whether holders of leases can use it: the library asks nobody."""
        store = self._open(self._storage)
        try:
            lease = store.take_lease(snapshot, holder="use", length=timedelta(hours=2))
        except Gone:
            return False
        store.release_lease(lease.id)
        return True

    def staged(self) -> None:
        """Nothing is staged: a commit is written whole."""

    def uploading(self) -> None:
        """What a commit in the making wrote is protected by the margin alone."""

    def unfinished(self) -> str:
        """A chunk of a commit that did not come to its end."""
        name = "0" * 20
        (self._written.folder / "chunks").mkdir(exist_ok=True)
        (self._written.folder / "chunks" / name).write_bytes(b"left")
        self._stamp()
        return f"repository/chunks/{name}"

    def lose(self, snapshot: SnapshotId) -> None:
        (self._written.folder / "snapshots" / snapshot).unlink()

    def shorten(self) -> bool:
        """No read can be short: in spec 2 one file has them all, with their number, and whoever
        loses a snapshot of spec 1 while the folder is read finds its name in the next listing."""
        return False

    def age(self) -> None:
        self._clock.advance(days=30)

    def wait(self, time: timedelta) -> None:
        self._clock.advance(seconds=time.total_seconds())

    def hold(self, snapshot: SnapshotId, length: timedelta) -> str:
        store = self._open(self._storage)
        return store.take_lease(snapshot, holder="contract", length=length).id

    def line(self) -> Sequence[SnapshotId]:
        made = []
        for _ in range(3):
            self._clock.advance(days=10)
            made.append(self._write("a"))
        return made

    @contextmanager
    def without_library(self) -> Iterator[None]:
        installed, library.MODULE = library.MODULE, "icechunk_that_is_not_installed"
        try:
            yield
        finally:
            library.MODULE = installed

    def needs_besides(self, snapshot: SnapshotId) -> Collection[str]:
        """The logs of ancestors that an edit took away from it, and from its ancestors."""
        if self._spec == 1:
            return ()
        repo = decode_repo((self._written.folder / "repo").read_bytes(), "repo")
        entries = {info.id: info for info in repo.snapshots}
        logs: list[str] = []
        at: str | None = snapshot
        while at is not None:
            logs += entries[at].pruned
            at = entries[at].parent
        assert logs
        return [f"repository/transactions/{log}" for log in logs]

    def backups(self) -> set[str]:
        return self._written.names("overwritten") if self._spec > 1 else set()

    def operations(self) -> Sequence[object]:
        if self._spec == 1:
            return ()
        log = self._written.reopened().repository.ops_log()
        return [(update.kind, update.updated_at) for update in log]

    def tag(self, name: str, snapshot: SnapshotId) -> None:
        self._written = self._written.reopened()
        self._written.repository.create_tag(name, snapshot)

    def reached(self) -> set[SnapshotId]:
        self._written = self._written.reopened()
        repository = self._written.repository
        refs = [{"branch": name} for name in repository.list_branches()]
        refs += [{"tag": name} for name in repository.list_tags()]
        return {SnapshotId(info.id) for ref in refs for info in repository.ancestry(**ref)}

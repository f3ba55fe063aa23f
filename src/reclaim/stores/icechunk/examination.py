"""Examining a repository for the doctor: whether everything that it needs is there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound, ReclaimError
from reclaim.model import RefKind, SnapshotId
from reclaim.stores.findings import Advance, Finding, Level, failed, some
from reclaim.stores.icechunk.addresses import CHUNKS, SNAPSHOTS
from reclaim.stores.icechunk.driver_reader import DriverReader
from reclaim.stores.icechunk.history import RepositoryHistory
from reclaim.stores.icechunk.observing import Observer

REPOSITORY, OBJECTS = "repository", "objects"
"""The names of the checks."""
RESTORE = "restore them from a backup"


class Examination:
    """A look at one repository; ``name`` is how people know it."""

    def __init__(self, observer: Observer, name: str) -> None:
        self._observer = observer
        self._storage = observer.storage
        self._format = observer.format
        self._name = name

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        reader = DriverReader(self._storage)
        try:
            self._observer.check()
            history = self._observer.read_history(self._observer.survey(reader), reader)
        except ReclaimError as error:
            yield failed(REPOSITORY, error, self._name)
            return
        branches = sum(1 for ref in history.refs if ref.kind is RefKind.BRANCH)
        yield Finding(
            Level.OK,
            REPOSITORY,
            f"spec {self._format.spec}, {len(history.snapshots)} snapshots, {branches} branches, "
            f"{len(history.refs) - branches} tags",
            "",
            self._name,
        )
        if deep:
            yield self._look(history, advance)

    def _look(self, history: RepositoryHistory, advance: Advance | None) -> Finding:
        """Look for every object that a branch or tag reaches; with ``advance`` read the chunks."""
        live = history.reached(ref.snapshot for ref in history.refs)
        missing: list[str] = []
        manifests: dict[str, dict[str, object]] = {}
        for snapshot in sorted(live):
            self._add_manifests(snapshot, manifests, missing)
        listed = self._chunks()
        read: set[str] = set()
        for container in manifests.values():
            try:
                entries = self._format.entries(self._storage, container, paths=False)
            except ReclaimError as error:
                missing.append(error.message)
                continue
            chunks = pc.unique(entries.column("address"))
            there = pc.is_in(chunks, value_set=listed)
            missing += chunks.filter(pc.invert(there)).to_pylist()
            if advance is not None:
                missing += self._read(set(chunks.filter(there).to_pylist()) - read, advance)
                read.update(chunks.to_pylist())
        if not missing:
            said = "everything that branches and tags need is there"
            return Finding(Level.OK, OBJECTS, said, "", self._name)
        lost = Corrupt(f"{len(missing)} objects are missing or damaged: {some(sorted(missing))}")
        return Finding(Level.PROBLEM, OBJECTS, lost.message, RESTORE, self._name, lost.exit_code)

    def _add_manifests(
        self, snapshot: SnapshotId, manifests: dict[str, dict[str, object]], missing: list[str]
    ) -> None:
        address = self._format.address(SNAPSHOTS, snapshot)
        try:
            listed = self._format.containers(self._storage, address)
        except ReclaimError as error:
            missing.append(error.message)
            return
        manifests.update((row["address"], row) for row in listed.to_pylist())

    def _chunks(self) -> pa.Array:
        """The addresses of all chunks that there are."""
        batches = self._storage.batches(f"{self._format.prefix}{CHUNKS}")
        columns = [batch.column("address") for batch in batches]
        return pa.concat_arrays([pa.array([], pa.string()), *columns])

    def _read(self, chunks: set[str], advance: Advance) -> list[str]:
        """Those of some chunks that cannot be read."""

        def size(address: str) -> int | None:
            try:
                return len(self._storage.get(address))
            except (NotFound, Corrupt):
                return None

        ordered = sorted(chunks)
        with ThreadPoolExecutor(max(self._storage.at_once, 1)) as readers:
            sizes = list(readers.map(size, ordered))
        for found in sizes:
            advance(found or 0)
        return [one for one, found in zip(ordered, sizes, strict=True) if found is None]

"""Checks of a repository for ``doctor``: presence of all live data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound, ReclaimError
from reclaim.model import RefKind, SnapshotId
from reclaim.storage import LISTED
from reclaim.stores.findings import Advance, Finding, Level, abbreviate, failed
from reclaim.stores.icechunk.addresses import CHUNKS, SNAPSHOTS, TRANSACTIONS
from reclaim.stores.icechunk.driver_reader import DriverReader
from reclaim.stores.icechunk.history import RepositoryHistory
from reclaim.stores.icechunk.manifest_file import chunk_ends
from reclaim.stores.icechunk.observing import IcechunkObserver

REPOSITORY, OBJECTS = "repository", "objects"
"""Names of the checks."""
RESTORE = "restore them from a backup"


class IcechunkExamination:
    """Checks of a repository; ``name`` is its name in findings."""

    def __init__(self, observer: IcechunkObserver, name: str) -> None:
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
            yield self._check_objects(history, advance)

    def _check_objects(self, history: RepositoryHistory, advance: Advance | None) -> Finding:
        """Check every object reached by branches and tags; with ``advance`` read the chunks."""
        live = history.reached(ref.snapshot for ref in history.refs)
        missing: list[str] = []
        manifests: dict[str, dict[str, object]] = {}
        for snapshot in sorted(live):
            self._add_manifests(snapshot, manifests, missing)
        missing += self._missing_logs(history, live)
        listed = self._chunks()
        read: set[str] = set()
        for container in manifests.values():
            try:
                entries = self._format.entries(self._storage, container, paths=False)
            except ReclaimError as error:
                missing.append(error.message)
                continue
            chunks = pc.unique(entries.column("address"))
            present = pc.is_in(chunks, value_set=listed.column("address"))
            missing += chunks.filter(pc.invert(present)).to_pylist()
            missing += self._cut_off(str(container["address"]), entries, listed)
            if advance is not None:
                missing += self._read(set(chunks.filter(present).to_pylist()) - read, advance)
                read.update(chunks.to_pylist())
        if not missing:
            sentence = "all objects needed by branches and tags exist"
            return Finding(Level.OK, OBJECTS, sentence, "", self._name)
        lost = Corrupt(
            f"{len(missing)} objects are missing or damaged: {abbreviate(sorted(missing))}"
        )
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

    def _chunks(self) -> pa.Table:
        """Addresses and sizes of all chunks in the storage."""
        batches = list(self._storage.batches(f"{self._format.prefix}{CHUNKS}"))
        return pa.Table.from_batches(batches, schema=LISTED).combine_chunks()

    def _cut_off(self, manifest: str, entries: pa.Table, listed: pa.Table) -> list[str]:
        """Chunks shorter than required by the refs of a manifest."""
        ends = chunk_ends(self._storage.get(manifest), manifest)
        at = pc.index_in(entries.column("address"), value_set=listed.column("address"))
        sizes = pc.take(listed.column("size"), at)
        short = pc.fill_null(pc.less(sizes, pa.array(ends.astype("i8"))), False)
        return [
            f"{address} (cut off)"
            for address in pc.unique(entries.column("address").filter(short)).to_pylist()
        ]

    def _missing_logs(self, history: RepositoryHistory, live: Collection[SnapshotId]) -> list[str]:
        """Missing transaction logs of live snapshots. The first snapshot of a repository has no
        log.
        """
        needed = {id for id in live if history.snapshots[id].parents}
        needed.update(SnapshotId(log) for id in live for log in history.pruned.get(id, ()))
        existing = self._format.ids_in(self._storage, TRANSACTIONS)
        return [self._format.address(TRANSACTIONS, id) for id in sorted(needed - existing)]

    def _read(self, chunks: set[str], advance: Advance) -> list[str]:
        """Return those chunks which cannot be read."""

        def size(address: str) -> int | None:
            try:
                return len(self._storage.get(address))
            except (NotFound, Corrupt):
                return None

        ordered = sorted(chunks)
        with ThreadPoolExecutor(max(self._storage.at_once, 1)) as readers:
            sizes = list(readers.map(size, ordered))
        for length in sizes:
            advance(length or 0)
        return [chunk for chunk, length in zip(ordered, sizes, strict=True) if length is None]

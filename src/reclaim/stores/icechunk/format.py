"""Objects of a repository and their decoding; sent to the executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.errors import Corrupt, NotFound
from reclaim.storage import KeyRange, Storage
from reclaim.storage.key_range import spread
from reclaim.stores.format import (
    CONTAINERS,
    ENTRIES,
    NO_READ,
    OWNED,
    QUARANTINE,
    REASONS,
    RECORD,
    WORK,
    ReadsBytes,
    SurveysContainers,
)
from reclaim.stores.icechunk import survey
from reclaim.stores.icechunk.addresses import (
    CHUNKS,
    MANIFESTS,
    OURS,
    OVERWRITTEN,
    SNAPSHOTS,
    TRANSACTIONS,
)
from reclaim.stores.icechunk.manifest_file import decode_manifest
from reclaim.stores.icechunk.object_ids import ALPHABET, ID_LETTERS, PATTERN, is_id, names
from reclaim.stores.icechunk.snapshot_file import NO_MANIFESTS, SnapshotFile, decode_snapshot
from reclaim.stores.sidecar.records import FILE as RUN_FILE

SNAPSHOT, TRANSACTION, MANIFEST, CHUNK = "snapshot", "transaction log", "manifest", "chunk"
BACKUP, OLD_BACKUP = "backup", "old backup"
"""Kinds of copies of replaced ``repo`` files. The operations log needs some of them. Others are
collected only on request, and only then count as old.
"""
RUN, UNKNOWN = "run", "unknown"

PIECES = {CHUNKS: 64, MANIFESTS: 8, TRANSACTIONS: 8, SNAPSHOTS: 8}
"""Number of key ranges of each flat folder."""


@dataclass(frozen=True, slots=True)
class IcechunkFormat(SurveysContainers):
    """Files of a repository. The root is its parent folder.

    In ``spec`` 1 the history is stored in the snapshots, and a survey reads them. Backups are
    listed only if ``backups`` are to be collected.
    """

    name: str
    spec: int
    backups: bool = False

    own_folder: ClassVar[str] = OURS

    @property
    def prefix(self) -> str:
        return f"{self.name}/"

    @property
    def order(self) -> Sequence[str]:
        # The library's own order: leftovers of a crash are unlisted, and deleted by the next run.
        return SNAPSHOT, TRANSACTION, MANIFEST, CHUNK, OLD_BACKUP, WORK, RECORD

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((SNAPSHOT,))

    @property
    def has_paths(self) -> bool:
        # Refs have coordinates in an array, not paths.
        return False

    def address(self, folder: str, id: str) -> str:
        return f"{self.prefix}{folder}/{id}"

    def ids_in(self, storage: Storage, folder: str) -> set[str]:
        """Ids of the objects directly in a folder."""
        path = f"{self.prefix}{folder}"
        names = (stored.address.removeprefix(f"{path}/") for stored in storage.list(path))
        return {name for name in names if is_id(name)}

    def containers_of(self, snapshot: str) -> dict[str, str]:
        """Containers named by a snapshot itself, by kind."""
        return {
            SNAPSHOT: self.address(SNAPSHOTS, snapshot),
            TRANSACTION: self.address(TRANSACTIONS, snapshot),
        }

    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        for folder in PIECES:
            yield from self.ranges_of(folder)
        if self.backups:
            yield KeyRange(f"{self.prefix}{OVERWRITTEN}")
        runs, _ = storage.folders(f"{self.prefix}{OURS}/runs")
        yield from map(KeyRange, runs)

    def ranges_of(self, folder: str) -> Iterator[KeyRange]:
        """Key ranges of a folder with random names."""
        return spread(f"{self.prefix}{folder}", ALPHABET, PIECES[folder])

    @property
    def reasons(self) -> Mapping[str, str]:
        unfinished = "nothing lists it: of a commit that was not finished, or of one long gone"
        return {
            **dict.fromkeys((SNAPSHOT, TRANSACTION, MANIFEST, CHUNK), unfinished),
            OLD_BACKUP: "an old copy of repo that the operations log does not need",
            **REASONS,
        }

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        inside = pc.starts_with(addresses, self.prefix)
        # By length instead of a pattern: the folder may have any name.
        below = pc.utf8_slice_codeunits(addresses, len(self.prefix))

        def like(folder: str, pattern: str) -> pa.Array:
            begins = pc.and_(inside, pc.starts_with(below, f"{folder}/"))
            # Usually all addresses are in a single folder; skip the patterns of the others.
            if not pc.any(begins).as_py():
                return begins
            return pc.and_(begins, pc.match_substring_regex(below, f"^{folder}/{pattern}$"))

        run = "runs/[^/]+"
        kind = pc.case_when(
            pc.make_struct(
                like(CHUNKS, PATTERN),
                like(MANIFESTS, PATTERN),
                like(TRANSACTIONS, PATTERN),
                like(SNAPSHOTS, PATTERN),
                like(OVERWRITTEN, rf"repo\.[0-9]+\.{PATTERN}"),
                like(OURS, f"{run}/{RUN_FILE}"),
                like(OURS, f"{run}/(.+/)?work/.+"),
                like(OURS, f"{run}/.+"),
                like(OURS, f"{QUARANTINE}/.+"),
            ),
            *(CHUNK, MANIFEST, TRANSACTION, SNAPSHOT),
            OLD_BACKUP if self.backups else BACKUP,
            *(RUN, WORK, RECORD, QUARANTINE),
            UNKNOWN,
        )
        blank = pa.repeat(pa.scalar("", pa.string()), len(addresses))
        return pc.make_struct(kind, blank, blank, field_names=["kind", "belongs_to", "guard"])

    # Containers

    def containers(self, storage: ReadsBytes, address: str) -> pa.Table:
        """Manifests of a snapshot, each with its size as the detail."""
        return self._manifests([read_snapshot(storage, address)])

    def _manifests(self, snapshots: Sequence[SnapshotFile]) -> pa.Table:
        """Concatenated manifests of some snapshots."""
        lists = [NO_MANIFESTS, *(snapshot.manifests for snapshot in snapshots)]
        rows = sum(map(len, lists))
        columns = (
            names(
                np.concatenate([manifests.ids for manifests in lists]), f"{self.prefix}{MANIFESTS}/"
            ),
            pa.repeat(pa.scalar(MANIFEST, pa.string()), rows),
            pa.array(np.concatenate([manifests.sizes for manifests in lists])).cast(pa.string()),
            pa.array(np.concatenate([manifests.refs for manifests in lists])).cast(pa.int64()),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
        )
        return pa.table(columns, schema=CONTAINERS)

    def _owned(self, files: Mapping[str, SnapshotFile]) -> pa.Table:
        """Snapshots and their manifests, as ``OWNED``."""
        owners = pa.array(files, pa.string())
        counts = pa.array([len(file.manifests) for file in files.values()], pa.int64())
        rows = len(owners)
        itself = (
            owners,
            owners,
            pa.repeat(pa.scalar(SNAPSHOT, pa.string()), rows),
            pa.repeat(pa.scalar(NO_READ, pa.string()), rows),
            counts,
            pa.repeat(pa.scalar(0, pa.int32()), rows),
        )
        listed = self._manifests(list(files.values()))
        owner_of = owners.take(pa.array(np.repeat(np.arange(rows), counts.to_numpy())))
        return pa.concat_tables(
            [
                pa.table(itself, schema=OWNED),
                pa.table([owner_of, *listed.columns], schema=OWNED),
            ]
        )

    def entries(
        self,
        storage: ReadsBytes,
        container: Mapping[str, Any],
        *,
        paths: bool,  # noqa: ARG002
    ) -> pa.Table:
        """Chunks of a manifest stored as objects, one row for each native ref, without paths."""
        address = container["address"]
        data = _get(storage, address)
        manifest = decode_manifest(data, address)
        expected = {
            "id": (address[-ID_LETTERS:], manifest.id),
            "size": (container["detail"], str(len(data))),
            "number of refs": (container["entries"], manifest.refs),
        }
        for field, (wanted, actual) in expected.items():
            if wanted != actual:
                raise Corrupt(
                    f"the manifest {address} differs from its snapshot in {field}: "
                    f"{actual}, not {wanted}",
                    hint="restore it from a backup; nothing was deleted",
                )
        addresses = names(manifest.chunks, f"{self.prefix}{CHUNKS}/")
        return pa.table([addresses, pa.nulls(len(addresses), pa.string())], schema=ENTRIES)

    # Snapshots

    def has_snapshots(self, keys: KeyRange) -> bool:
        return keys.prefix == f"{self.prefix}{SNAPSHOTS}"

    def survey(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """Objects in the folder of snapshots; in spec 1 they are read as well."""
        listed, folder = survey.listed(storage, ranges), f"{self.prefix}{SNAPSHOTS}"
        if self.spec == 1:
            # Objects deleted during the listing are omitted.
            return survey.read(storage, listed, folder, vanished=None, latest_spec=1)
        return survey.by_name(listed, folder)

    def survey_commits(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """Survey of the history alone, without the dependencies of snapshots."""
        listed, folder = survey.listed(storage, ranges), f"{self.prefix}{SNAPSHOTS}"
        if self.spec == 1:
            return survey.read_commits(storage, listed, folder)
        return survey.by_name(listed, folder)

    @property
    def surveys_containers(self) -> bool:
        return self.spec == 1

    def survey_containers(
        self, storage: Storage, ranges: Sequence[KeyRange]
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        listed, folder = survey.listed(storage, ranges), f"{self.prefix}{SNAPSHOTS}"
        pieces = survey.read_files(storage, listed, folder, vanished=None, latest_spec=1)
        for rows, files in pieces:
            yield rows, self._owned(files)

    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """The given snapshots, read in either spec."""
        existing, gone = survey.heads(storage, addresses)
        missing, folder = "it is missing", f"{self.prefix}{SNAPSHOTS}"
        return pa.concat_tables(
            [
                survey.read(storage, existing, folder, vanished=missing),
                survey.faulty(gone, folder, missing),
            ]
        )


def read_snapshot(storage: ReadsBytes, address: str) -> SnapshotFile:
    """Read a snapshot; raise an error if it is missing."""
    snapshot = decode_snapshot(_get(storage, address), address)
    survey.check_name(snapshot, address)
    return snapshot


def _get(storage: ReadsBytes, address: str) -> bytes:
    try:
        return storage.get(address)
    except NotFound as error:
        raise Corrupt(
            f"{address} is missing", hint="restore it from a backup; nothing was deleted"
        ) from error

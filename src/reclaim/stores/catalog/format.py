"""Files of a repository: their names, and decoding of their containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.catalog.addresses import PARTITION, ROOT, is_partition, segment
from reclaim.catalog.content import ranges as containers
from reclaim.catalog.content.ranges import RangeInfo
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import KeyRange, Storage
from reclaim.stores.catalog.folders import folders_of
from reclaim.stores.format import (
    CONTAINERS,
    ENTRIES,
    FOREIGN,
    INDEXED,
    QUARANTINE,
    REASONS,
    RECORD,
    WORK,
    IndexesEntries,
    Margin,
    ReadsBytes,
)
from reclaim.urls import is_odd

DATA, RANGE, METARANGE, CONTAINER = "data", "range", "metarange", "container"
EPOCH, UNKNOWN = "epoch", "unknown"

WRITTEN = {
    DATA: "uploaded, and in no commit",
    CONTAINER: "written for a commit that failed",
}
DELETED = "the repository was deleted"

MANY_BRANCHES = 64
ASKED_AT_ONCE = 16
"""Number of concurrent requests for the folders of branches."""
CHECKPOINTS, PROTECTED = "checkpoints", "protected"
"""Folders of checkpoints with the index, and of records of protected paths."""
OLD_CHECKPOINTS = ("uncommitted", "index")
"""Folders of checkpoints written by older versions of Reclaim."""
LEFT = (CHECKPOINTS, PROTECTED, *OLD_CHECKPOINTS)
LIFECYCLE = "lifecycle"
"""Folder of files left by lifecycle runs."""


@dataclass(frozen=True, slots=True)
class CatalogFormat(IndexesEntries):
    """Files of a repository: data by branch and partition, containers, and Reclaim's own files."""

    repo_uid: str
    deleted: bool = False

    own_folder: ClassVar[str] = "_reclaim"
    guard_noun: ClassVar[str] = "partition"

    @property
    def prefix(self) -> str:
        return f"repos/{self.repo_uid}/"

    @property
    def order(self) -> Sequence[str]:
        # A crash in between leaves metadata without data, never data without metadata.
        kinds = (DATA, RANGE, CONTAINER, METARANGE, WORK, RECORD)
        return (*kinds, UNKNOWN, QUARANTINE, EPOCH) if self.deleted else kinds

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((METARANGE,))

    @property
    def has_paths(self) -> bool:
        return True

    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        """Folders of branches, or of their partitions if the number of requests is acceptable.

        Objects in folders never used by a repository are not listed, and so never collected, unless
        the whole repository was deleted. A partition holds a bounded number of objects.
        """
        return map(KeyRange, self._folders(storage))

    def _folders(self, storage: Storage) -> Iterator[str]:
        if self.deleted:
            yield self.prefix.rstrip("/")
            return
        branches = _folders(storage, f"{self.prefix}branches")
        if len(branches) > MANY_BRANCHES:
            yield from branches
        else:
            for branch in branches:
                yield from _folders(storage, branch)
        yield from _folders(storage, f"{self.prefix}_reclaim/meta")
        yield from self._own_folders(storage)

    def _own_folders(self, storage: Storage) -> Iterator[str]:
        """Folders of collectable files left by runs."""
        yield from _folders(storage, f"{self.prefix}_reclaim/runs")
        for part in (*LEFT, LIFECYCLE):
            yield f"{self.prefix}_reclaim/{part}"

    def branch_folder(self, branch: str) -> str:
        return f"{self.prefix}branches/{segment(branch)}"

    def partition_folders(self, storage: Storage, branch: str | None) -> Iterator[tuple[str, str]]:
        """Folders of partitions, of all branches and of containers, and folders of runs.

        Folders are requested by branch, which a storage answers without listing objects.
        """
        if branch is not None:
            parents: Sequence[str] = [self.branch_folder(branch)]
        else:
            branches = _folders(storage, f"{self.prefix}branches")
            parents = [*branches, f"{self.prefix}_reclaim/meta"]
        for folders in _list_folders(storage, parents):
            for folder in folders:
                name = folder.rstrip("/").rsplit("/", 1)[-1]
                is_ours = is_partition(name) and not is_odd(f"{folder}/_")
                yield folder, name if is_ours else ""
        if branch is None:
            yield from ((folder, "") for folder in self._own_folders(storage))

    @property
    def reasons(self) -> Mapping[str, str]:
        return dict.fromkeys(self.order, DELETED) if self.deleted else WRITTEN | REASONS

    @property
    def margins(self) -> Mapping[str, Margin]:
        margins = super(CatalogFormat, self).margins
        return dict.fromkeys(margins, "objects") if self.deleted else margins

    def describe(self, addresses: pa.Array) -> pa.StructArray:
        """Describe addresses by their parts: owned by branches, guarded by partitions."""
        inside = pc.utf8_slice_codeunits(addresses, start=len(self.prefix))
        inside = pc.if_else(pc.starts_with(addresses, self.prefix), inside, "")
        parts = pc.split_pattern(inside, "/")
        depth = pc.list_value_length(parts)
        first, second, third = (_part(parts, depth, at) for at in range(3))
        fourth = _part(parts, depth, 3)
        data = pc.and_(pc.equal(first, "branches"), pc.equal(depth, 4))
        named = pc.match_substring_regex(third, f"^(?:{PARTITION})$")
        own = pc.equal(first, "_reclaim")
        meta = pc.and_(pc.and_(own, pc.equal(second, "meta")), pc.equal(depth, 4))
        runs = pc.and_(pc.and_(own, pc.equal(second, "runs")), pc.greater(depth, 3))
        work = pc.and_(runs, pc.equal(fourth, "work"))
        # Files of the last run are held; older files are deleted like other working files.
        checkpoints = pc.and_(own, pc.is_in(second, pa.array(LEFT)))
        by_rules = pc.and_(own, pc.equal(second, LIFECYCLE))
        # Checkpoints of older versions of Reclaim.
        begun = pc.is_in(third, pa.array(["checkpoints", "index"]))
        work = pc.or_(work, pc.or_(checkpoints, pc.and_(by_rules, begun)))
        # The other folders contain tables for people: records.
        runs = pc.or_(runs, by_rules)
        epoch = pc.and_(pc.and_(own, pc.equal(second, "epoch")), pc.equal(depth, 3))
        quarantined = pc.and_(own, pc.equal(second, QUARANTINE))
        holds_partitions = pc.or_(
            pc.equal(first, "branches"), pc.and_(own, pc.equal(second, "meta"))
        )
        foreign = pc.and_not(pc.and_(holds_partitions, pc.greater(depth, 3)), named)
        kind = pc.case_when(
            pc.make_struct(foreign, data, meta, work, runs, epoch, quarantined),
            FOREIGN,
            DATA,
            CONTAINER,
            WORK,
            RECORD,
            EPOCH,
            QUARANTINE,
            UNKNOWN,
        )
        branch = pc.if_else(data, second, "")
        partition = pc.if_else(pc.and_(pc.or_(data, meta), named), third, "")
        names = ["kind", "belongs_to", "guard"]
        return pc.make_struct(kind, branch, partition, field_names=names)

    def containers(self, storage: ReadsBytes, address: str) -> pa.Table:
        ranges = containers.decode_metarange_table(_read(storage, address), address)
        rows = ranges.num_rows
        columns = (
            ranges.column("address"),
            pa.repeat(pa.scalar(RANGE, pa.string()), rows),
            ranges.column("digest"),
            ranges.column("count"),
            pa.repeat(pa.scalar(0, pa.int32()), rows),
        )
        return pa.table(list(columns), schema=CONTAINERS)

    def entries(
        self, storage: ReadsBytes, container: Mapping[str, Any], *, paths: bool
    ) -> pa.Table:
        rows = self.described(storage, container)
        path = rows.column("path") if paths else pa.nulls(rows.num_rows, pa.string())
        return pa.table([rows.column("address"), path], schema=ENTRIES)

    def indexed(self, storage: ReadsBytes, container: Mapping[str, Any]) -> tuple[pa.Table, int]:
        rows, count = self._decoded(storage, container)
        addresses = rows.column("address").combine_chunks()
        columns = (
            self._partitions(addresses),
            addresses,
            rows.column("path"),
            rows.column("created_at"),
            _constant(container["address"], rows.num_rows),
        )
        return pa.table(list(columns), schema=INDEXED), count

    def _partitions(self, addresses: pa.Array) -> pa.DictionaryArray:
        """Partition of each address. Folders are few, and each is described once."""
        folders = folders_of(addresses)
        if folders is None:
            return pc.struct_field(self.describe(addresses), "guard").dictionary_encode()
        inside = pc.binary_join_element_wise(folders.dictionary, "_", "")
        names = pc.struct_field(self.describe(inside), "guard")
        return pa.DictionaryArray.from_arrays(folders.indices, names)

    def described(self, storage: ReadsBytes, container: Mapping[str, Any]) -> pa.Table:
        """Entries of a container with all columns, limited to objects in the storage root."""
        return self._decoded(storage, container)[0]

    def _decoded(self, storage: ReadsBytes, container: Mapping[str, Any]) -> tuple[pa.Table, int]:
        """The described entries, and the total number of entries."""
        address = container["address"]
        info = RangeInfo(address, container["detail"], "", "", container["entries"], 0)
        rows = containers.decode_range(_read(storage, address), info)
        if rows.num_rows != info.count:
            raise Corrupt(
                f"the container {address} has {rows.num_rows} entries; its metarange says "
                f"{info.count}"
            )
        # Objects stored elsewhere are never collected.
        owned = pc.starts_with(rows.column("address"), ROOT)
        return rows if pc.all(owned).as_py() else rows.filter(owned), rows.num_rows


def _constant(value: str, count: int) -> pa.DictionaryArray:
    """Dictionary array repeating a value."""
    codes = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(codes, pa.array([value], pa.string()))


def _folders(storage: Storage, folder: str) -> Sequence[str]:
    subfolders, _ = storage.folders(folder)
    return subfolders


def _list_folders(storage: Storage, parents: Sequence[str]) -> Iterator[Sequence[str]]:
    """Subfolders of each folder; of very many folders, several at a time."""
    if len(parents) <= MANY_BRANCHES:
        yield from (_folders(storage, parent) for parent in parents)
        return
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        yield from pool.map(lambda parent: _folders(storage, parent), parents)


def _part(parts: pa.Array, depth: pa.Array, at: int) -> pa.Array:
    """The nth part of each path, "" where there are fewer."""
    enough = pc.greater(depth, at)
    padded = pc.if_else(enough, parts, pa.scalar([""] * (at + 1), pa.list_(pa.string())))
    return pc.list_element(padded, at)


def _read(storage: ReadsBytes, address: str) -> bytes:
    try:
        return storage.get(address)
    except NotFound as error:
        raise Corrupt(
            f"the container {address} is missing",
            hint="restore it from a backup or another copy; nothing was deleted",
        ) from error

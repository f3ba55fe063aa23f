"""Format of a store: names of its objects, and decoding of its containers.

A format is small, can be pickled, and is sent to the executors, which never connect to a database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import pyarrow as pa

from reclaim.storage import KeyRange, Storage
from reclaim.stores.declared import Declared

CONTAINERS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # Data of the format for reading and verifying it.
        pa.field("detail", pa.string(), nullable=False),
        # Required number of entries.
        pa.field("entries", pa.int64(), nullable=False),
        # 0 for live containers; otherwise the number of the cause in the plan.
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""Containers listed by snapshots, such as ranges or manifests."""


OWNED = pa.schema([pa.field("owner", pa.string(), nullable=False), *CONTAINERS])
"""Containers, each with the snapshot container listing it."""


NO_READ = "no read"
"""Detail of a container whose contents need no reading: its name is enough."""


ENTRIES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
    ]
)
"""Entries of a container: addresses in the store, and logical paths where available."""


CODED = pa.dictionary(pa.int32(), pa.string())
"""Column of few distinct, frequently repeated values."""

INDEXED = pa.schema(
    [
        # The guard of the address: objects in a partition are read together.
        pa.field("partition", CODED, nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
        # The container listing it.
        pa.field("range", CODED, nullable=False),
    ]
)
"""Entries as stored in an index of containers; see ``IndexesEntries``."""


SNAPSHOTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        # The snapshot owning the object, if any.
        pa.field("id", pa.string()),
        # Snapshots required for loading it: its parent, and the snapshot through which it is
        # loaded instead of its ancestors.
        pa.field("parent", pa.string()),
        pa.field("through", pa.string()),
        # Ids held as data; they may not be ids of snapshots.
        pa.field("names", pa.list_(pa.string())),
        # Additional data of the store.
        pa.field("note", pa.string()),
        # Reason why it is unreadable, if it is.
        pa.field("fault", pa.string()),
    ]
)
"""Snapshots stored as files: a listing, with the fields of their graph."""


LISTED_SNAPSHOTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("parents", pa.list_(pa.string())),
        # Reason for keeping it, if kept by the store's own rules.
        pa.field("kept_by", pa.string()),
    ]
)
"""Snapshots as listed in a plan; null where the store does not know."""


Margin = Literal["objects", "work", "records"]
"""Name of the margin in ``Margins`` for a kind of objects."""


QUARANTINE = "quarantine"
"""Kind of quarantined objects. Only the quarantining run, or its end, changes them; quarantined
objects of unknown runs are deleted together with a deleted store.
"""


FOREIGN = "foreign"
"""Kind of objects in the store's own folders under names never used by the store. They are counted
and reported, and always kept, even in a deleted store.
"""
WORK, RECORD = "work", "record"
"""Kinds of files left by runs: working files, and plans and journals."""

REASONS = {WORK: "left behind by a run", RECORD: "a record of an old run"}
MARGINS: Mapping[str, Margin] = {WORK: "work", RECORD: "records"}


class ReadsBytes(Protocol):
    """Source of containers: a storage, or the quarantine of runs in it."""

    def get(self, address: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Format(Declared, ABC):
    """Names of a store's objects, and decoding of its containers."""

    root: str
    """URL of the storage; addresses are relative to it."""

    own_folder: ClassVar[str]
    """Folder of Reclaim's own files, inside the prefix."""
    sequential: ClassVar[bool] = False
    """Whether objects of a kind are deleted in order, as listed."""
    guard_noun: ClassVar[str] = ""
    """The store's own term for a guard; "" for a store without guards."""

    @property
    @abstractmethod
    def prefix(self) -> str:
        """Prefix of the store in the storage. Nothing outside it is ever deleted."""

    @property
    @abstractmethod
    def order(self) -> Sequence[str]:
        """Collectable kinds, in the order of deletion."""

    @abstractmethod
    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        """Key ranges covering every object of the store, each object in exactly one range."""

    @abstractmethod
    def describe(self, addresses: pa.Array) -> pa.StructArray:
        """``kind``, ``belongs_to`` and ``guard`` of each address.

        ``belongs_to`` is the owner shown to people, such as a branch. While a guard is open, its
        objects are kept. Both are "" where there is none.
        """

    @property
    def reads(self) -> frozenset[str]:
        """Kinds of snapshot containers to be read for their lists.

        Empty, except for formats inheriting ``ReadsContainers``.
        """
        return frozenset()

    @property
    def reasons(self) -> Mapping[str, str]:
        """Reasons for deleting objects never listed by a snapshot, by kind."""
        return REASONS

    @property
    def margins(self) -> Mapping[str, Margin]:
        """Margin of each collectable kind."""
        return {kind: MARGINS.get(kind, "objects") for kind in self.order}

    def quarantine_path(self, run_id: str) -> str:
        """Quarantine folder of a run, inside the prefix. Its objects are of the kind
        ``QUARANTINE``, which is collectable only in a deleted store.
        """
        return f"{self.prefix}{self.own_folder}/{QUARANTINE}/{run_id}/"

    def view(self, storage: Storage) -> Storage:
        """View of the storage with objects as counted by this format; most formats count files."""
        return storage


class ReadsContainers(Format):
    """A format whose snapshots need containers beyond those named by their ids."""

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """Kinds of snapshot containers to be read; other kinds are known by name."""

    @property
    @abstractmethod
    def has_paths(self) -> bool:
        """Whether entries have logical paths.

        Without paths, the name of every object determines its kind in a collection.
        """

    @abstractmethod
    def containers(self, storage: ReadsBytes, address: str) -> pa.Table:
        """Containers listed by a snapshot container, as ``CONTAINERS``."""

    @abstractmethod
    def entries(
        self, storage: ReadsBytes, container: Mapping[str, Any], *, paths: bool
    ) -> pa.Table:
        """Verified entries of a container, as ``ENTRIES``; paths only on request."""


class IndexesEntries(ReadsContainers):
    """A format whose entries can be indexed, so that each container is read once."""

    @abstractmethod
    def indexed(self, storage: ReadsBytes, container: Mapping[str, Any]) -> tuple[pa.Table, int]:
        """Verified entries of a container, as ``INDEXED``, and their total number.

        Entries of objects stored elsewhere are omitted, but counted.
        """

    @abstractmethod
    def branch_folder(self, branch: str) -> str:
        """Folder of the objects of a branch."""

    @abstractmethod
    def partition_folders(self, storage: Storage, branch: str | None) -> Iterator[tuple[str, str]]:
        """Folders of objects, each with its guard, or "" without a guard.

        With a ``branch``, only the folders of its objects.
        """


class DecodesSnapshots(Format):
    """A format whose snapshots are files holding the snapshot graph."""

    @abstractmethod
    def has_snapshots(self, keys: KeyRange) -> bool:
        """Whether a survey reads the files of a key range; other ranges are only listed."""

    @abstractmethod
    def survey(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """Objects of key ranges, as ``SNAPSHOTS``; an unreadable object has a fault."""

    @abstractmethod
    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """The given objects, as ``SNAPSHOTS``."""


class SurveysContainers(DecodesSnapshots, ReadsContainers):
    """A format whose snapshot files hold both the graph and the list of containers."""

    @property
    @abstractmethod
    def surveys_containers(self) -> bool:
        """Whether a survey reads these files, making a second read unnecessary."""

    @abstractmethod
    def survey_containers(
        self, storage: Storage, ranges: Sequence[KeyRange]
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Survey in batches, each with the containers of its readable snapshots.

        Containers are rows of ``OWNED``: one row for the snapshot itself, with the detail
        ``NO_READ``, and a row for each container. All have the cause of live data.
        """


class Reader(Protocol):
    """Reads many snapshots in parallel, on other machines where available."""

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """Objects of key ranges, as ``SNAPSHOTS``."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """The given objects, as ``SNAPSHOTS``."""
        ...

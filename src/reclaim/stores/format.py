"""The format of a store: how its objects are named and its containers read.

It is small, can be pickled, and goes to the executors, which never see a database.
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
        # What the format needs to read and verify it.
        pa.field("detail", pa.string(), nullable=False),
        # How many entries it must have.
        pa.field("entries", pa.int64(), nullable=False),
        # 0 for what is live; otherwise the number of what made it dead, among a plan's causes.
        pa.field("cause", pa.int32(), nullable=False),
    ]
)
"""Containers that snapshots need, such as ranges or manifests."""


OWNED = pa.schema([pa.field("owner", pa.string(), nullable=False), *CONTAINERS])
"""Containers, each with the snapshot container that lists it."""


NO_READ = "no read"
"""The detail of a container that need not be read, or not any more: its name is enough."""


ENTRIES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
    ]
)
"""Entries of a container: addresses in the store, and the logical path where there is one."""


CODED = pa.dictionary(pa.int32(), pa.string())
"""Few different values, each of them often."""

INDEXED = pa.schema(
    [
        # The guard of the address: what lies together is read together.
        pa.field("partition", CODED, nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
        # The container that lists it.
        pa.field("range", CODED, nullable=False),
    ]
)
"""Entries as an index of containers has them; see ``IndexesEntries``."""


SNAPSHOTS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        # The snapshot whose object it is, if it is one's.
        pa.field("id", pa.string()),
        # The snapshots that it cannot be loaded without: the one below it, and the one through
        # which it is loaded instead of all that is below.
        pa.field("parent", pa.string()),
        pa.field("through", pa.string()),
        # The ids that it holds as data; they need not be those of snapshots.
        pa.field("names", pa.list_(pa.string())),
        # What else the store wants to know of it.
        pa.field("note", pa.string()),
        # Why it cannot be read, if it cannot.
        pa.field("fault", pa.string()),
    ]
)
"""Snapshots that are files of the storage: a listing, with what tells their graph."""


DRAWN = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("parents", pa.list_(pa.string())),
        # What keeps it, in a sentence, if it is kept by the store's own rules.
        pa.field("kept_by", pa.string()),
    ]
)
"""Snapshots as a plan draws them; null where the store does not know."""


Margin = Literal["objects", "work", "records"]
"""Which of the ``Margins`` a kind of objects has."""


QUARANTINE = "quarantine"
"""The kind of what a run has set aside. Only the run that did so, or its end, touches it; what is
of no such run goes with a store that was deleted."""


FOREIGN = "foreign"
"""The kind of what lies where a store keeps its own objects, under a name that the store never
gives. It is counted and named, and left alone, even where the store itself is gone."""
WORK, RECORD = "work", "record"
"""The kinds of what runs leave: files for their own work, and plans and journals."""

REASONS = {WORK: "left behind by a run", RECORD: "a record of an old run"}
MARGINS: Mapping[str, Margin] = {WORK: "work", RECORD: "records"}


class ReadsBytes(Protocol):
    """A source of containers: a storage, or the quarantine of runs in it."""

    def get(self, address: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Format(Declared, ABC):
    """How the objects of a store are named and its containers read."""

    root: str
    """The URL of the storage; addresses are relative to it."""

    ours: ClassVar[str]
    """The folder, inside the prefix, in which Reclaim keeps files of its own."""
    sequential: ClassVar[bool] = False
    """Whether the objects of a kind are to be taken one after the other, as they are listed."""
    guard_noun: ClassVar[str] = ""
    """The store's own word for a guard; "" for a store without any."""

    @property
    @abstractmethod
    def prefix(self) -> str:
        """The store's own part of the storage. Nothing outside it is ever deleted."""

    @property
    @abstractmethod
    def order(self) -> Sequence[str]:
        """The kinds that may be collected, in the order in which they are deleted."""

    @abstractmethod
    def key_ranges(self, storage: Storage) -> Iterator[KeyRange]:
        """Key ranges that together hold every object of the store, each object in one of them."""

    @abstractmethod
    def describe(self, addresses: pa.Array) -> pa.StructArray:
        """For each address its ``kind``, what it ``belongs_to``, and its ``guard``.

        What it belongs to is what people are told, such as a branch. While its guard is open,
        nothing is taken of what it protects. Both are "" where there is none.
        """

    @property
    def reads(self) -> frozenset[str]:
        """The kinds of snapshot containers that have to be read to know what they list.

        None, but of a format that is a ``ReadsContainers``.
        """
        return frozenset()

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why an object goes that no snapshot ever listed: a sentence for each kind."""
        return REASONS

    @property
    def margins(self) -> Mapping[str, Margin]:
        """The margin by which each kind in the order is judged."""
        return {kind: MARGINS.get(kind, "objects") for kind in self.order}

    def quarantine_path(self, run_id: str) -> str:
        """The folder, inside the prefix, where a run sets objects aside; they are of the kind
        ``QUARANTINE``, which is in no order, unless the store itself is gone."""
        return f"{self.prefix}{self.ours}/{QUARANTINE}/{run_id}/"

    def view(self, storage: Storage) -> Storage:
        """The storage with objects as this format counts them; most count files."""
        return storage


class ReadsContainers(Format):
    """A format in which names do not tell all that a snapshot needs."""

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """The kinds of snapshot containers that have to be read; the others are taken by name."""

    @property
    @abstractmethod
    def has_paths(self) -> bool:
        """Whether entries have logical paths.

        Where they have none, the name of every object tells the kind that it is collected as.
        """

    @abstractmethod
    def containers(self, storage: ReadsBytes, address: str) -> pa.Table:
        """The containers that a snapshot container lists, as ``CONTAINERS``."""

    @abstractmethod
    def entries(
        self, storage: ReadsBytes, container: Mapping[str, Any], *, paths: bool
    ) -> pa.Table:
        """Entries of a container, verified, as ``ENTRIES``; paths only when asked for."""


class IndexesEntries(ReadsContainers):
    """A format whose entries can be kept in an index, so that containers are read once."""

    @abstractmethod
    def indexed(self, storage: ReadsBytes, container: Mapping[str, Any]) -> tuple[pa.Table, int]:
        """Entries of a container, verified, as ``INDEXED``; and how many it has in all.

        Those of objects that lie elsewhere are left out.
        """

    @abstractmethod
    def branch_folder(self, branch: str) -> str:
        """The folder in which the objects of a branch lie."""

    @abstractmethod
    def partition_folders(self, storage: Storage, branch: str | None) -> Iterator[tuple[str, str]]:
        """The folders in which objects lie, each with its guard, or "" where it has none.

        With a ``branch`` those alone in which its objects lie.
        """


class DecodesSnapshots(Format):
    """A format whose snapshots are files that have to be read to know their graph."""

    @abstractmethod
    def has_snapshots(self, keys: KeyRange) -> bool:
        """Whether a key range is one that a survey reads; others are listed only."""

    @abstractmethod
    def survey(self, storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
        """The objects of key ranges, as ``SNAPSHOTS``; one that cannot be read has a fault."""

    @abstractmethod
    def snapshots(self, storage: Storage, addresses: Sequence[str]) -> pa.Table:
        """Some objects, in the same way."""


class SurveysContainers(DecodesSnapshots, ReadsContainers):
    """A format whose snapshots tell their graph and their containers in the same file."""

    @property
    @abstractmethod
    def surveys_containers(self) -> bool:
        """Whether a survey reads that file, so that nobody need read it again."""

    @abstractmethod
    def survey_containers(
        self, storage: Storage, ranges: Sequence[KeyRange]
    ) -> Iterator[tuple[pa.Table, pa.Table]]:
        """A survey in pieces, each with what those of its snapshots list that could be read.

        That is as ``OWNED``: one row for the snapshot itself, with the detail ``NO_READ``, and one
        for each container. The cause of all of them is that of what is live.
        """


class Reader(Protocol):
    """Reads many snapshots at once, on other machines where there are any."""

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        """The objects of key ranges, as ``SNAPSHOTS``."""
        ...

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        """Some objects, in the same way."""
        ...

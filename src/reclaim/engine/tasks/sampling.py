"""A sample of live addresses, by which a plan tells that its listing is of the same place.

The sample has the addresses with the least keys (see ``engine.tasks.keys``), so that tasks choose
it without knowing of each other. Every run over the same live addresses has the same sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.looking_up import guards_of
from reclaim.stores.format import NO_READ, Format

Keys = npt.NDArray[np.uint64]
Within = Callable[[pa.Table], pa.Table]
"""Leaves the rows whose addresses a listing must have."""

SIZE = 200
"""Addresses of a sample: of half of all objects, between 35 and 65 % of them are listed."""


@dataclass(slots=True)
class Sample:
    """Live addresses by key: no more than ``SIZE``, and those with the least keys."""

    addresses: dict[int, str] = field(default_factory=dict)

    def add(self, addresses: pa.ChunkedArray, keys: Keys, within: Within) -> None:
        """Take in addresses with their keys."""
        if len(self.addresses) == SIZE:
            least = np.flatnonzero(keys < np.uint64(max(self.addresses)))
            addresses, keys = addresses.take(pa.array(least)), keys[least]
        if not len(keys):
            return
        rows = within(pa.table({"address": addresses, "key": pa.array(keys)}))
        rows = rows.take(pc.select_k_unstable(rows, SIZE, [("key", "ascending")]))
        self._merge(zip(*(column.to_pylist() for column in reversed(rows.columns)), strict=True))

    def _merge(self, more: Iterable[Sequence[object]]) -> None:
        found = self.addresses | {int(str(key)): str(address) for key, address in more}
        self.addresses = dict(sorted(found.items())[:SIZE])

    def encode(self) -> list[tuple[int, str]]:
        """As a task reports it."""
        return list(self.addresses.items())

    @classmethod
    def of(cls, reports: Iterable[Sequence[Sequence[object]]]) -> Sample:
        """The samples of tasks together."""
        sample = cls()
        for report in reports:
            sample._merge(report)
        return sample

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(self.addresses)


def count_sampled(keys: Keys, sample: Sequence[int]) -> int:
    """How many of some keys are in a sample, which is sorted."""
    if not sample:
        return 0
    few = keys[keys <= np.uint64(sample[-1])]
    return int(np.isin(few, np.array(sample, np.uint64)).sum())


def find_guessed(format: Format, containers: pa.Table) -> pa.Array:
    """The kinds of containers that are taken by name: one of them need not be there."""
    named = containers.filter(pc.equal(containers.column("detail"), NO_READ)).column("kind")
    return pa.array(sorted({*named.unique().to_pylist()} - format.reads), pa.string())


def below(prefix: str, rows: pa.Table) -> pa.Table:
    """The rows of a store's own objects: others are listed by nobody."""
    return rows.filter(pc.starts_with(rows.column("address"), prefix))


def listed_part(format: Format, prefix: str, unlisted: frozenset[str], rows: pa.Table) -> pa.Table:
    """The rows below a folder, without those in partitions that are not listed."""
    rows = below(prefix or format.prefix, rows)
    skipped = pc.is_in(guards_of(format, rows), pa.array(sorted(unlisted), pa.string()))
    return rows.filter(pc.invert(skipped))

"""A sample of live addresses, to verify that a listing is of the right place.

The sample has the addresses with the least keys (see ``engine.tasks.keys``), so tasks choose it
independently. Every run over the same live addresses has the same sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.lookup import guards_of
from reclaim.stores.format import NO_READ, Format

Keys = npt.NDArray[np.uint64]
Within = Callable[[pa.Table], pa.Table]
"""Selects the rows whose addresses a listing must have."""

SIZE = 200
"""Addresses in a sample: if half of all objects are listed, between 35 and 65 % of the sample
are."""


@dataclass(slots=True)
class Sample:
    """Live addresses by key: at most ``SIZE``, with the least keys."""

    addresses: dict[int, str] = field(default_factory=dict)

    def add(self, addresses: pa.ChunkedArray, keys: Keys, within: Within) -> None:
        """Add addresses with their keys."""
        if len(self.addresses) == SIZE:
            least = np.flatnonzero(keys < np.uint64(max(self.addresses)))
            addresses, keys = addresses.take(pa.array(least)), keys[least]
        if not len(keys):
            return
        rows = within(pa.table({"address": addresses, "key": pa.array(keys)}))
        rows = rows.take(pc.select_k_unstable(rows, SIZE, [("key", "ascending")]))
        self._merge(zip(*(column.to_pylist() for column in reversed(rows.columns)), strict=True))

    def _merge(self, more: Iterable[Sequence[object]]) -> None:
        addresses = self.addresses | {int(str(key)): str(address) for key, address in more}
        self.addresses = dict(sorted(addresses.items())[:SIZE])

    def encode(self) -> list[tuple[int, str]]:
        """Return the sample as a task reports it."""
        return list(self.addresses.items())

    @classmethod
    def of(cls, reports: Iterable[Sequence[Sequence[object]]]) -> Sample:
        """Combine the samples of tasks."""
        sample = cls()
        for report in reports:
            sample._merge(report)
        return sample

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(self.addresses)


def count_sampled(keys: Keys, sample: Sequence[int]) -> int:
    """Return how many of some keys are in a sample, which is sorted."""
    if not sample:
        return 0
    few = keys[keys <= np.uint64(sample[-1])]
    return int(np.isin(few, np.array(sample, np.uint64)).sum())


def find_guessed(format: Format, containers: pa.Table) -> pa.Array:
    """Return the kinds of containers taken by name, any of which may be missing."""
    named = containers.filter(pc.equal(containers.column("detail"), NO_READ)).column("kind")
    return pa.array(sorted({*named.unique().to_pylist()} - format.reads), pa.string())


def below(prefix: str, rows: pa.Table) -> pa.Table:
    """Return the rows of the store's own objects, the only listed objects."""
    return rows.filter(pc.starts_with(rows.column("address"), prefix))


def listed_part(format: Format, prefix: str, unlisted: frozenset[str], rows: pa.Table) -> pa.Table:
    """Return the rows below a folder, without those in unlisted partitions."""
    rows = below(prefix or format.prefix, rows)
    skipped = pc.is_in(guards_of(format, rows), pa.array(sorted(unlisted), pa.string()))
    return rows.filter(pc.invert(skipped))

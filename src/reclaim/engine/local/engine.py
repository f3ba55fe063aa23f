"""The local engine: runs the tasks of a run one after the other in this process, without Java.

It keeps addresses in memory, so it refuses stores with more than a million objects. Its plans are
the same as those of the Spark engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from reclaim.clock import Clock
from reclaim.engine.answers import Objects, Surveyed
from reclaim.engine.in_process import InProcess, no_step
from reclaim.engine.tasks.keys import Key
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage, write_part
from reclaim.errors import Refused
from reclaim.storage import LISTED, KeyRange, buckets
from reclaim.stores.format import (
    OWNED,
    SNAPSHOTS,
    DecodesSnapshots,
    Format,
    SurveysContainers,
)

MOST_OBJECTS = 1_000_000
"""Largest number of objects the local engine accepts; they take some hundred megabytes of
memory."""
SURVEY_TASKS = 4
"""Number of tasks the ranges of a survey are spread over."""


def hashes_of(addresses: pa.ChunkedArray) -> Key:
    """Return the key of each address, by another hash than the Spark engine."""
    hashes = (
        blake2b(name.lower().encode(), digest_size=8).digest() for name in addresses.to_pylist()
    )
    return np.frombuffer(b"".join(hashes), np.uint64)


class LocalEngine(InProcess):
    """Runs the tasks of a run in this process."""

    def __init__(
        self,
        opener: Opener = open_storage,
        *,
        clock: Clock | None = None,
        step: Callable[[str], None] = no_step,
        most_objects: int = MOST_OBJECTS,
    ) -> None:
        """``step`` is called with the name of each job or task before it runs."""
        super().__init__(opener, clock=clock, step=step, keys_of=hashes_of, admit=self._admit)
        self._most = most_objects

    def start(self) -> None:
        pass

    def ended(self) -> bool:
        # Tasks run in the call itself.
        return True

    def can_load(self, rows: int) -> bool:
        # The Spark engine loads keys, and both engines must make the same plans.
        return not rows

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        storage = format.view(self._open(format.root))
        batches: list[pa.Table] = []
        count = 0
        for keys in ranges:
            self._step(f"list {keys.prefix}")
            for batch in storage.batches(keys.prefix, after=keys.after, until=keys.until):
                batches.append(pa.Table.from_batches([batch]))
                count += batch.num_rows
                self._admit(count)
        return Objects(place.url, self._write(place, "part", LISTED, batches))

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        storage = format.view(self._open(format.root))
        tables = [SNAPSHOTS.empty_table()]
        for first in range(SURVEY_TASKS):
            if task := ranges[first::SURVEY_TASKS]:
                self._step(f"survey {task[0].prefix}")
                tables.append(format.survey(storage, task))
        return pa.concat_tables(tables)

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        storage = format.view(self._open(format.root))
        rows, listed = [SNAPSHOTS.empty_table()], []
        for first in range(SURVEY_TASKS):
            if task := ranges[first::SURVEY_TASKS]:
                self._step(f"survey {task[0].prefix}")
                for snapshots, owned in format.survey_containers(storage, task):
                    rows.append(snapshots)
                    listed.append(owned)
        return Surveyed(pa.concat_tables(rows), self._write(place, "part", OWNED, listed))

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        self._step("snapshots")
        return format.snapshots(format.view(self._open(format.root)), addresses)

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        return buckets.noncurrent(format.root, folders)

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        whole = pa.concat_tables([schema.empty_table(), *tables])
        if not whole.num_rows:
            return []
        self._admit(whole.num_rows)
        return [write_part(self._open(place.url), place.at(f"{stem}.parquet"), whole)]

    def _admit(self, objects: int) -> None:
        """Refuse more objects, or entries of containers, than fit into memory."""
        if objects > self._most:
            raise Refused(
                f"the store has more than {self._most:,} objects or entries, too many for the "
                "local engine",
                hint="repeat the command with --engine spark",
            )

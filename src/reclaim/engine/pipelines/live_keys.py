"""Keys of live addresses, written to files for tasks to compare with.

A key has eight bytes. Up to ``Engine.can_load`` keys are loaded by every process judging objects,
so the objects need not move; more keys are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from reclaim.engine.answers import ContainerFiles, Read
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.sampling import Sample
from reclaim.engine.work import containers
from reclaim.engine.work.containers import JOIN_KEY
from reclaim.engine.work.lines import Lines
from reclaim.stores.format import CONTAINERS, Format

LOOKUP_LIMIT = 32_000_000
"""Keys a process can load: a quarter of a gigabyte."""

Keys = tuple[Part, ...]
"""Files with keys."""


@dataclass(frozen=True, slots=True)
class WrittenKeys:
    """Keys of live addresses with a sample of them, and keys of dead addresses with their
    causes."""

    live: Keys = ()
    dead: Keys = ()
    sample: Sample = field(default_factory=Sample)

    @classmethod
    def of(cls, lines: Lines) -> WrittenKeys:
        parts = lines.parts
        return cls(
            live=tuple(part for part in parts if part.group != containers.DEAD),
            dead=tuple(part for part in parts if part.group == containers.DEAD),
            sample=sample_in(lines),
        )


def write_keys(
    engine: JobRunner,
    format: Format,
    needed: ContainerFiles,
    held: Sequence[str],
    done: Sequence[Part],
    place: Place,
    *,
    dead: bool = False,
) -> tuple[WrittenKeys, Read]:
    """Write the keys of all addresses needed or done, and return the amount read.

    With ``dead``, also those of the addresses dead containers list.
    """
    sources: list[Rows] = []
    if count := needed.containers + (needed.dead if dead else 0):
        listed = rows_of(engine, place.url, needed.parts, CONTAINERS)
        if not dead:
            listed = listed.where("cause", LIVE)
        sources.append(listed.repartition(count_tasks(engine, count)))
    if held or done:
        sources.append(engine.spread(containers.extra_sources(held, done)))
    if not sources:
        return WrittenKeys(), Read()
    first, *others = sources
    rows = first.union(others[0]) if others else first
    lines = engine.run("read", rows, partial(containers.write_keys, format, place, engine.keys_of))
    read = Read(lines.sum("containers"), lines.sum("entries"), lines.sum("held"))
    return WrittenKeys.of(lines), read


def key_rows(engine: JobRunner, keys: Keys, url: str) -> Rows:
    """Return keys as rows, to join on."""
    return engine.files(keys).map(partial(containers.read_keys, url), pa.schema([JOIN_KEY]))


def can_load(engine: JobRunner, keys: Keys) -> bool:
    return engine.can_load(count_rows(keys))


def live_addresses(engine: JobRunner, url: str, parts: Sequence[Part]) -> Rows:
    """Return the addresses of live containers in files, each once, as ``KNOWN``.

    Whole addresses: a container mistaken for another would not be read.
    """
    read = partial(containers.read_known, url)
    return engine.files(parts).map(read, containers.KNOWN).distinct()


def sample_in(*jobs: Lines) -> Sample:
    """Return the sample of live addresses reported by tasks."""
    reports = (report for lines in jobs for report in lines.reports())
    return Sample.of(report[containers.SAMPLE] for report in reports)

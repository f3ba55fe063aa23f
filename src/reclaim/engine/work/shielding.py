"""Protection of a store: match paths with globs, and objects with shields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import keys, shielding
from reclaim.engine.tasks.keys import Causes, Key, KeysOf
from reclaim.engine.tasks.parts import (
    Part,
    Place,
    loaded_once,
    read_part,
    task_storage,
    write_parts,
)
from reclaim.engine.work.lines import Tables, lines_of, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.storage import hashed_files
from reclaim.stores.format import Format

LOADED_AT_ONCE = 16_000_000
"""Shields a process loads once, in a fifth of a gigabyte; more are read part by part for every
table."""


def write_matches(format: Format, globs: Sequence[str], place: Place, containers: Tables) -> Tables:
    """Write the paths in dead containers matched by globs."""
    storage, counts = storage_of(format), shielding.MatchCounts()

    def matches() -> Tables:
        for table in containers:
            yield from shielding.match_dead(format, storage, table, globs, counts)

    parts = list(write_parts(task_storage(place.url), stem_in(place), matches()))
    yield lines_of(parts, asdict(counts))


def write_listed(globs: Sequence[str], place: Place, files: Tables) -> Tables:
    """Write the paths matched by globs in entries read from dead containers."""
    counts = shielding.MatchCounts()

    def matches() -> Tables:
        for table in read_parts(place.url, files):
            counts.containers += shielding.count_listed(table)
            yield shielding.match_paths(table, globs)

    parts = list(write_parts(task_storage(place.url), stem_in(place), matches()))
    yield lines_of(parts, asdict(counts))


def write_shields(url: str, globs: Sequence[str], place: Place, files: Tables) -> Tables:
    """Write the addresses shielded by parts with paths."""
    shields = (shielding.shields_of(table, globs) for table in read_parts(url, files))
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), shields))


def write_hashed_shields(globs: Sequence[str], place: Place, files: Tables) -> Tables:
    """Do the same for files hashed by name."""
    storage = task_storage(place.url)
    names = (name for table in files for name in table.column("address").to_pylist())
    shields = (shielding.shields_of(hashed_files.read(storage, name), globs) for name in names)
    yield lines_of(write_parts(storage, stem_in(place), shields))


def write_distinct(globs: Sequence[str], place: Place, rows: Tables) -> Tables:
    """Write addresses and paths matched by globs."""
    matching = (shielding.match_paths(table, globs) for table in rows)
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), matching))


def shielded(
    addresses: pa.ChunkedArray, url: str, parts: tuple[Part, ...], keys_of: KeysOf
) -> pa.Array | None:
    """Return the number of the glob shielding each object, null for none.

    Two addresses with the same key can only keep each other.
    """
    if not parts:
        return None
    named = keys_of(addresses)
    if sum(part.rows for part in parts) <= LOADED_AT_ONCE:
        return keys.find_causes(named, *_load(url, parts, keys_of))
    numbers: pa.Array = pa.nulls(len(named), pa.int32())
    for part in parts:
        globs = keys.find_causes(named, *_read(url, (part,), keys_of))
        numbers = pc.min_element_wise(numbers, globs)
    return numbers


@loaded_once(1)
def _load(url: str, parts: tuple[Part, ...], keys_of: KeysOf) -> tuple[Key, Causes]:
    return _read(url, parts, keys_of)


def _read(url: str, parts: tuple[Part, ...], keys_of: KeysOf) -> tuple[Key, Causes]:
    """Return the keys of shields, sorted, and their globs; of equal keys the first glob."""
    storage = task_storage(url)
    tables = [read_part(storage, part) for part in parts]
    named = np.concatenate([keys_of(table.column("address")) for table in tables])
    globs = np.concatenate([table.column("glob").to_numpy() for table in tables])
    order = np.lexsort((globs, named))
    return named[order], globs[order]

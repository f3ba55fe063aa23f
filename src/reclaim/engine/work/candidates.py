"""Find candidates: from listed objects to the files of a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.answers import Objects
from reclaim.engine.requests import ExcludeRequest
from reclaim.engine.tasks import excluding, judging, keys, reading, tally
from reclaim.engine.tasks.inventory import read_inventory
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS, CandidateRules, Verdict
from reclaim.engine.tasks.keys import Key, KeysOf
from reclaim.engine.tasks.parts import Part, Place, read_part, task_storage, write_parts
from reclaim.engine.tasks.sampling import count_sampled
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.lines import Tables, Work, lines_of, parts_in, stem_in
from reclaim.engine.work.parts import read_parts
from reclaim.engine.work.shielding import shielded
from reclaim.storage import LISTED
from reclaim.stores.format import Format

Seen = Iterator[tuple[pa.Table, dict[str, int]]]
"""Tables of rows, each with counts of the objects read to find them."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of objects."""

    format: Format
    objects: Objects
    sample: tuple[int, ...] = ()
    """Keys of live objects to count while reading."""

    def read(self, files: Tables) -> Tables:
        storage = task_storage(self.objects.url)
        for part in parts_in(files):
            if self.objects.verified:
                yield read_part(storage, part)
            else:
                yield read_inventory(storage, part, self.objects, self.format)

    def count(self, table: pa.Table, named: Key) -> dict[str, int]:
        """Return the number of objects in a table, with their keys."""
        return {
            "objects": table.num_rows,
            "size": pc.sum(table.column("size")).as_py() or 0,
            "sampled": count_sampled(named, self.sample),
        }

    def folded(self, files: Tables) -> Tables:
        """Yield only the addresses, as ``reading.needs`` yields them."""
        for table in self.read(files):
            yield pa.table({"address": reading.folded(table.column("address"))})


def count_objects(source: Source, keys_of: KeysOf, files: Tables) -> Tables:
    """Count objects, and those of them in the sample."""
    counts = {"objects": 0, "size": 0, "sampled": 0}
    for table in source.read(files):
        for name, count in source.count(table, keys_of(table.column("address"))).items():
            counts[name] += count
    yield lines_of((), counts)


def with_keys(keys_of: KeysOf, rows: Tables) -> Tables:
    """Yield rows with their keys, to join on."""
    for table in rows:
        yield table.append_column("key", pa.array(keys_of(table.column("address")).view(np.int64)))


def survivors(
    source: Source, url: str, live: tuple[Part, ...], keys_of: KeysOf, files: Tables
) -> Seen:
    """Yield objects whose keys are not live, with the number of all objects."""
    loaded = keys.load(url, live)
    for table in source.read(files):
        named = keys_of(table.column("address"))
        rows = table.filter(pa.array(~keys.among(named, loaded)))
        yield rows, source.count(table, named)


def unlisted(url: str, live: tuple[Part, ...], keys_of: KeysOf, rows: Tables) -> Tables:
    """Yield rows whose keys are not live."""
    loaded = keys.load(url, live)
    for table in rows:
        yield table.filter(pa.array(~keys.among(keys_of(table.column("address")), loaded)))
        tally.count(OBJECTS, table.num_rows)


def write_survivors(place: Place, rows: Tables) -> Tables:
    """Write survivors in the shape for judging, with empty columns for the dead container."""
    written = write_parts(
        task_storage(place.url), stem_in(place.below("survivors")), map(_bare, rows)
    )
    yield lines_of(written, {})


def _bare(table: pa.Table) -> pa.Table:
    blank = [pa.nulls(table.num_rows, field.type) for field in list(SURVIVORS)[3:]]
    return pa.table([*table.select(LISTED.names).columns, *blank], schema=SURVIVORS)


def with_counts(look: Callable[[Tables], Seen], write: Work, files: Tables) -> Tables:
    """Read, then write; the report also counts the objects read."""
    counts = {"objects": 0, "size": 0, "sampled": 0}

    def rows() -> Tables:
        for table, seen in look(files):
            for name, count in seen.items():
                counts[name] += count
            yield _bare(table)
            tally.count(OBJECTS, seen["objects"])

    for lines in write(rows()):
        reports = [
            json.dumps(json.loads(text) | counts) if text else ""
            for text in lines.column("report").to_pylist()
        ]
        yield lines.set_column(lines.column_names.index("report"), "report", [pa.array(reports)])


def judge(
    format: Format, rules: CandidateRules, place: Place, keys_of: KeysOf, rows: Tables
) -> Tables:
    """Judge survivors and write the candidates."""
    verdict, shields = Verdict(), tuple(rules.shields)
    paths = rules.load_paths(task_storage(place.url))

    def judged() -> Tables:
        for table in rows:
            kept = shielded(table.column("address"), place.url, shields, keys_of)
            candidates, judgement = judging.judge(format, table.cast(SURVIVORS), rules, paths, kept)
            verdict.add(judgement)
            yield candidates

    parts = list(write_parts(task_storage(place.url), stem_in(place), judged()))
    yield lines_of(parts, {"verdict": verdict.encode()})


def explain_by_key(
    url: str, dead: tuple[Part, ...], keys_of: KeysOf, judge: Work, rows: Tables
) -> Tables:
    """Judge survivors with causes: some of them have the keys of dead addresses."""

    def explained() -> Tables:
        known = keys.load_causes(url, dead)
        for table in rows:
            causes = keys.find_causes(keys_of(table.column("address")), *known)
            at = table.column_names.index("cause")
            yield table.set_column(at, SURVIVORS.field("cause"), pa.chunked_array([causes]))

    return judge(explained())


def keep_closed(closed: frozenset[str], place: Place, rows: Tables) -> Tables:
    """Write candidates without a guard or with a closed guard, each kind in files of its own."""
    known = pa.array([*closed, ""], pa.string())
    return write_kinds(
        place, (table.filter(pc.is_in(table.column("guard"), known)) for table in rows)
    )


def find_paths(url: str, globs: Sequence[str], files: Tables) -> Tables:
    """Yield the paths in lists of earlier applies matched by a glob."""
    for table in read_parts(url, files):
        yield excluding.find_paths(table, globs)


def exclude(request: ExcludeRequest, rows: Tables) -> Tables:
    """Write candidates to two lists: those no glob matches, and the others."""
    included: list[pa.Table] = []
    excluded: list[pa.Table] = []
    matches = [0] * len(request.globs)
    for table in rows:
        others, matching, counts = excluding.split(table, request.globs)
        included.append(others)
        excluded.append(matching)
        matches = [sum(pair) for pair in zip(matches, counts, strict=True)]
    yield from write_kinds(request.included, iter(included))
    yield from write_kinds(request.excluded, iter(excluded))
    yield lines_of((), {"matches": matches})


def write_kinds(place: Place, rows: Tables) -> Tables:
    """Write candidates, each kind in files of its own."""
    kinds: dict[str, list[pa.Table]] = {}
    for table in rows:
        kept = table.cast(CANDIDATES)
        for kind in kept.column("kind").unique().to_pylist():
            kinds.setdefault(kind, []).append(kept.filter(pc.equal(kept.column("kind"), kind)))
    storage = task_storage(place.url)
    yield lines_of(
        replace(part, group=kind)
        for kind, tables in kinds.items()
        for part in write_parts(storage, stem_in(place), tables)
    )

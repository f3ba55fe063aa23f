"""Parts: the files of a run, read and verified where they are needed."""

from __future__ import annotations

from reclaim.engine.spark.work.lines import Tables, lines_of, parts_in, stem_in
from reclaim.engine.tasks import judging
from reclaim.engine.tasks.parts import Place, open_storage, read_part, write_parts


def read_parts(url: str, files: Tables) -> Tables:
    storage = open_storage(url)
    for part in parts_in(files):
        yield read_part(storage, part)


def read_addresses(url: str, files: Tables) -> Tables:
    storage = open_storage(url)
    for part in parts_in(files):
        yield read_part(storage, part, ["address"])


def verify(url: str, files: Tables) -> Tables:
    """Read parts, and tell how many objects of each kind they list."""
    counts: dict[str, tuple[int, int]] = {}
    for table in read_parts(url, files):
        counts = judging.add_kinds(counts, judging.count_kinds(table))
    yield lines_of([], {"kinds": counts})


def write_rows(place: Place, rows: Tables) -> Tables:
    """Write rows down as they are."""
    yield lines_of(write_parts(open_storage(place.url), stem_in(place), rows))

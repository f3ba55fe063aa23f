"""Verify lists of candidates, intersect them, and split them by globs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from reclaim.engine.answers import Excluded
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.reading import count_rows, rows_of
from reclaim.engine.requests import ExcludeRequest
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.excluding import KNOWN_PATH
from reclaim.engine.tasks.judging import CANDIDATES, PATHS, add_kinds
from reclaim.engine.tasks.parts import ADDRESSES, Part, Place
from reclaim.engine.work import candidates, parts


def verify(engine: JobRunner, files: Sequence[Part], place: Place) -> Mapping[str, tuple[int, int]]:
    """Refuse parts changed since they were written.

    Return objects and bytes by kind, for parts with objects.
    """
    counts: dict[str, tuple[int, int]] = {}
    if files:
        lines = engine.run("check", engine.files(files), partial(parts.verify, place.url))
        for report in lines.reports():
            counts = add_kinds(counts, report["kinds"])
    return counts


def intersect(
    engine: JobRunner, planned: Sequence[Part], others: Sequence[Part], place: Place
) -> Sequence[Part]:
    """Return the planned candidates whose addresses are in other lists, too, as planned.

    They are written by kind, as by ``confirm``. Whole addresses are compared.
    """
    if not planned or not others:
        return ()
    listed = engine.files(others).map(partial(parts.read_addresses, place.url), ADDRESSES)
    # By whole address, never by hash: this selects objects to delete.
    both = rows_of(engine, place.url, planned, CANDIDATES).join(listed, "address", "left_semi")
    write = partial(candidates.write_kinds, place)
    return engine.run("intersect", both, write, shuffled=count_rows(planned, others)).parts


def exclude(engine: JobRunner, request: ExcludeRequest) -> Excluded:
    """Split candidates by globs; see ``tasks.excluding``. Each candidate is in exactly one list."""
    if not request.candidates:
        return Excluded((), (), [0] * len(request.globs))
    rows = rows_of(engine, request.included.url, request.candidates, CANDIDATES)
    if request.earlier:
        rows = rows.join(_known_paths(engine, request), "address", "left")
    lines = engine.run(
        "exclude",
        rows,
        partial(candidates.exclude, request),
        shuffled=count_rows(request.candidates, request.earlier) if request.earlier else 0,
    )
    folder = request.excluded.prefix
    excluded = [part for part in lines.parts if part.address.startswith(folder)]
    included = [part for part in lines.parts if not part.address.startswith(folder)]
    matches = [report["matches"] for report in lines.reports()]
    return Excluded(included, excluded, [sum(counts) for counts in zip(*matches, strict=True)])


def _known_paths(engine: JobRunner, request: ExcludeRequest) -> Rows:
    """Return addresses with a path from a list, where a glob matches it."""
    read = partial(candidates.find_paths, request.included.url, request.globs)
    paths = engine.files(request.earlier).map(read, PATHS)
    return paths.group("address", order=("path",)).rename("path", KNOWN_PATH)

"""Copy parts for later runs."""

from __future__ import annotations

from functools import partial

from reclaim.engine.base import JobRunner
from reclaim.engine.incremental import Copied, CopyRequest
from reclaim.engine.pipelines.reading import count_rows
from reclaim.engine.work import parts


def copy(engine: JobRunner, request: CopyRequest) -> Copied:
    """Copy parts to another place, each verified by its hash."""
    if not request.parts:
        return Copied()
    engine = engine.runner_for(count_rows(request.parts))
    work = partial(parts.copy, request.url, request.place, request.live)
    lines = engine.run("copy", engine.files(request.parts), work)
    return Copied(lines.parts, lines.sum("bytes"))

"""Failures of tasks: an error that was raised on an executor comes back as itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.errors import PySparkException

from reclaim import errors
from reclaim.errors import ReclaimError, Unavailable

_MARK = "reclaim-error:"
_MARKED = re.compile(re.escape(_MARK) + r"(\{.*\})")

Work = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]


class TaskFailed(Exception):
    """Carries an error of ours through Spark, which passes on nothing but text."""


def task(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function on tables as one for ``mapInArrow``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table in work(pa.Table.from_batches([batch]) for batch in batches):
                yield from table.to_batches()
        except ReclaimError as error:
            # ASCII only and on one line, so that it can be found in whatever Spark makes of it.
            raise TaskFailed(_MARK + json.dumps(error.body())) from error

    return run


@contextmanager
def translated() -> Iterator[None]:
    """Turn what Spark raises into the tree of ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except PySparkException as error:
        raise _translate(str(error)) from error


def _translate(text: str) -> ReclaimError:
    marked = _MARKED.search(text)
    if marked:
        try:
            body = json.loads(marked[1])
            found = _KINDS.get(body["kind"], ReclaimError)
            return found(body["message"], hint=body.get("hint"), **body.get("details", {}))
        except ValueError:
            pass
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if "Error" in line or "Exception" in line), text[:200])
    return Unavailable(
        f"Spark could not finish a job: {said[:300]}",
        hint="nothing was deleted by it; look at the executors' logs, then run it again",
    )


def _kinds(root: type[ReclaimError]) -> Iterator[tuple[str, type[ReclaimError]]]:
    yield root.kind, root
    for below in root.__subclasses__():
        yield from _kinds(below)


_KINDS = dict(_kinds(errors.ReclaimError))

"""Failures of tasks: an error that was raised on an executor comes back as itself."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from reclaim import errors
from reclaim.engine.work.lines import Work
from reclaim.errors import ReclaimError, Unavailable

_MARK = "reclaim-error:"
_RAISED = re.compile(r"^(?!org\.|java|scala)((?:\w+\.)*\w*(?:Error|Exception)\b.*)$", re.M)
"""The last line of a traceback of Python's."""
_CAUSE = re.compile(r".*SparkException: (.*)")


class TaskFailed(Exception):
    """Carries an error of ours through Spark, which passes on nothing but text."""


def task(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function on tables as one for ``mapInArrow``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Tasks make very many small things that are needed to the end.
        gc.set_threshold(50_000)
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
    except (PySparkException, Py4JError, ConnectionError) as error:
        # A worker or a driver that died is told by the bridge to Java, not by Spark.
        raise _translate(str(error)) from error


def _translate(text: str) -> ReclaimError:
    _, marked, rest = text.partition(_MARK)
    if marked:
        try:
            # Whatever follows on the line is Spark's.
            body, _ = json.JSONDecoder().raw_decode(rest)
            error = _KINDS.get(body["kind"], ReclaimError)
            return error(body["message"], hint=body.get("hint"), **body.get("details", {}))
        except ValueError:
            pass
    return Unavailable(
        f"Spark could not finish a job: {_said(text)[:300]}",
        hint="look at the executors' logs, then run it again; what was done is in the journal",
    )


def _said(text: str) -> str:
    """The error that Python raised, if that is where it failed, otherwise Spark's first words."""
    raised = _RAISED.findall(text)
    if raised:
        return str(raised[-1])
    cause = _CAUSE.search(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return cause[1] if cause else lines[0] if lines else "it gave no reason"


def _kinds(root: type[ReclaimError]) -> Iterator[tuple[str, type[ReclaimError]]]:
    yield root.kind, root
    for below in root.__subclasses__():
        yield from _kinds(below)


# From the leaves up: of classes that share a kind, the one that defines it comes back.
_KINDS = dict(reversed(list(_kinds(errors.ReclaimError))))

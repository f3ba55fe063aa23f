"""Failures of tasks: an error raised on an executor comes back as the same error."""

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
"""The last line of a Python traceback."""
_CAUSE = re.compile(r".*SparkException: (.*)")


class TaskFailed(Exception):
    """Carries a ``ReclaimError`` through Spark, which passes on only text."""


def task(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Wrap a function on tables for ``mapInArrow``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Tasks make very many small objects that live to the end.
        gc.set_threshold(50_000)
        try:
            for table in work(pa.Table.from_batches([batch]) for batch in batches):
                yield from table.to_batches()
        except ReclaimError as error:
            # ASCII only and on a single line, to be found in any text Spark makes of it.
            raise TaskFailed(_MARK + json.dumps(error.body())) from error

    return run


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of Spark into the classes of ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        # A dead worker or driver is reported by the bridge to Java, not by Spark.
        raise _translate(str(error)) from error


def _translate(text: str) -> ReclaimError:
    _, marked, line = text.partition(_MARK)
    if marked:
        try:
            # The rest of the line is Spark's.
            body, _ = json.JSONDecoder().raw_decode(line)
            error = _KINDS.get(body["kind"], ReclaimError)
            return error(body["message"], hint=body.get("hint"), **body.get("details", {}))
        except ValueError:
            pass
    return Unavailable(
        f"Spark could not finish a job: {_error_text(text)[:300]}",
        hint="check the executors' logs, then run it again; completed work is in the journal",
    )


def _error_text(text: str) -> str:
    """Return the error raised by Python, if any, otherwise Spark's first words."""
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


# From the leaves up: among classes with the same kind, the class defining it wins.
_KINDS = dict(reversed(list(_kinds(errors.ReclaimError))))

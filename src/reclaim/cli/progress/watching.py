"""Progress of a run: a bar on a terminal, otherwise a line a minute, or log lines."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from reclaim.cli.options.verbosity import CURRENT
from reclaim.model import instant_text
from reclaim.progress.bar import showing_bar
from reclaim.progress.gauge import Progress
from reclaim.progress.watch import Face, Nothing, Watch

log = logging.getLogger("reclaim.run")


@contextmanager
def watching() -> Iterator[Watch]:
    """Show the stages of a run in the block, unless the command is quiet."""
    verbosity = CURRENT.get()
    if verbosity.quiet:
        with _closing(Watch(Nothing())) as watch:
            yield watch
    elif verbosity.level:
        with _closing(Watch(LogLines())) as watch:
            yield watch
    else:
        # A separate stream: stderr is redirected while Spark starts.
        with _stderr() as stream, _face(stream) as face, _closing(Watch(face)) as watch:
            yield watch


@contextmanager
def _closing(watch: Watch) -> Iterator[Watch]:
    try:
        yield watch
    finally:
        watch.close()


@contextmanager
def _stderr() -> Iterator[TextIO]:
    try:
        copy = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        yield sys.stderr
        return
    with os.fdopen(copy, "w", errors="backslashreplace") as stream:
        yield stream


@contextmanager
def _face(stream: TextIO) -> Iterator[Face]:
    if not sys.stderr.isatty():
        yield MinuteLines(stream)
        return
    with showing_bar(stream) as bar:
        yield bar


class MinuteLines(Nothing):
    """A line a minute, for logs of schedulers; nothing for a shorter run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._takes_long = False

    def tell(self, line: str) -> None:
        if self._takes_long:
            print(f"{_now()} {line}", file=self._stream, flush=True)

    def show(self, reading: Progress) -> None:
        self._takes_long = True
        print(f"{_now()} {reading.stage}: {reading.sentence()}", file=self._stream, flush=True)


class LogLines(Nothing):
    """Progress as log records."""

    def show(self, reading: Progress) -> None:
        from reclaim.run.record.stages import FIELDS, as_text

        log.info(as_text(reading.fields()), extra={FIELDS: reading.fields()})

    def tell(self, line: str) -> None:
        log.info(line)


def _now() -> str:
    from reclaim.clock import SystemClock

    return instant_text(SystemClock().now(), "seconds")

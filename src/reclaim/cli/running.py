"""Parts that commands with runs share: an engine, how they are watched, where they log."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.exits import DEBUG_VARIABLE
from reclaim.cli.settings import current
from reclaim.cli.watching import Watch, watching
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.engine.base import Engine


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where a run's work is done, and what it tells a scheduler."""

    master: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Spark's master. Default: this machine.", show_default=False
        ),
    ] = None
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A Spark Connect server, instead of a master.", show_default=False
        ),
    ] = None
    tasks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many tasks a large job is cut into. Default: two for each core.",
            show_default=False,
        ),
    ] = None
    log: Annotated[
        bool,
        typer.Option("--log", help="A log line for each stage, on stderr; the same as -v."),
    ] = False

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Show how far stages are, as the command was asked to."""
        with watching() as watch:
            yield watch

    def engine(self, shown: Watch) -> Engine:
        """The engine on Spark, which is started now or was by an earlier command."""
        from reclaim.run.stages import Stage

        starting = Stage("start Spark")
        shown.begin(starting)
        session = self.spark()
        shown.end(starting)

        from reclaim.engine.spark.engine import SparkEngine
        from reclaim.engine.spark.meter import SparkMeter

        meter = SparkMeter(session)
        shown.measure(meter)
        tasks = current()["spark.tasks"]
        return SparkEngine(session, tasks=None if tasks is None else int(tasks), meter=meter)

    def spark(self) -> Any:
        """A Spark session that says nothing of its own."""
        try:
            from reclaim.engine.spark.session import build_session
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"this needs Spark, and {error.name} is not installed",
                hint="install it with: pip install 'reclaim[spark]'",
            ) from error
        if not os.environ.get(DEBUG_VARIABLE):
            logging.getLogger().addHandler(_UNHANDLED)
        with _quiet():
            master, remote = current().spark()
            return build_session(master=master, remote=remote)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let what is started write to nowhere: a JVM says much that nobody asked for.

    It keeps what it was given as stdout and stderr. What it says of a failed job reaches us as
    an error; ``RECLAIM_DEBUG=1`` lets the rest through.
    """
    if os.environ.get(DEBUG_VARIABLE):
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


class _Unhandled(logging.Handler):
    """Writes to stderr what no other handler writes, as Python does by itself.

    But not what the bridge to Java has to say of a call that Ctrl-C ended, which it writes to the
    root of all logs.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if "py4j" in Path(record.pathname).parts or logging.lastResort is None:
            return
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None and logger.parent is not None:
            if logger.handlers:
                return
            logger = logger.parent
        logging.lastResort.emit(record)


_UNHANDLED = _Unhandled(logging.WARNING)

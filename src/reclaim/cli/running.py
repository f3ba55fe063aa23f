"""Parts that commands with runs share: an engine, how they are watched, where they log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.config.settings import LOCAL, Settings, current
from reclaim.cli.options.panels import ENGINE
from reclaim.cli.progress.watching import Watch, watching
from reclaim.cli.views.exits import DEBUG_VARIABLE
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.engine.base import Engine


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where the work of a run is done."""

    engine_name: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="Where the work is done: spark, or local for at most a million objects and "
            "without Java. Default: spark.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER",
            help="Spark's master. Default: this machine.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A Spark Connect server, instead of a master.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None
    tasks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many tasks a large job is cut into. Default: two for each core.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Show how far stages are, as the command was asked to."""
        with watching() as watch:
            yield watch

    def engine(self, shown: Watch) -> Engine:
        """The engine that was chosen. Spark starts when the run needs it."""
        settings = current()
        if settings.engine() == LOCAL:
            return self.local_engine()

        with _told_if_missing():
            from reclaim.engine.spark.engine import SparkEngine
            from reclaim.engine.spark.meter import SparkMeter
        from reclaim.run.record.stages import Stage

        def started() -> Any:
            starting, since = Stage("start Spark"), monotonic()
            shown.begin(starting)
            session = _make_session(settings)
            starting.seconds = monotonic() - since
            shown.end(starting)
            return session

        def metered(session: Any) -> SparkMeter:
            meter = SparkMeter(session)
            shown.measure(meter)
            return meter

        tasks = settings["spark.tasks"]
        count = None if tasks is None else int(tasks)
        return SparkEngine(started, tasks=count, metered=metered)

    def local_engine(self) -> Engine:
        """The engine of this process, for runs that need no other."""
        from reclaim.engine.local.engine import LocalEngine

        return LocalEngine()

    def spark(self) -> Any:
        """A Spark session that says nothing of its own."""
        return _make_session(current())


def _make_session(settings: Settings) -> Any:
    with _told_if_missing():
        from reclaim.engine.spark.session import build_session

    debug = os.environ.get(DEBUG_VARIABLE)
    if not debug:
        logging.getLogger().addHandler(_UNHANDLED)
    master, remote = settings.spark()
    # What Java says of a failed job reaches us as an error.
    return build_session(master=master, remote=remote, silent=not debug)


@contextmanager
def _told_if_missing() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"this needs Spark, and {error.name} is not installed",
            hint="install it with: pip install 'reclaim[spark]'; for a small store use "
            "--engine local",
        ) from error


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

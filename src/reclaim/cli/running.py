"""Parts that commands with runs share: an engine, how they are watched, where they log."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.config.settings import LOCAL, Settings, current
from reclaim.cli.options.panels import ENGINE
from reclaim.cli.progress.watching import watching
from reclaim.cli.views.exits import DEBUG_VARIABLE

if TYPE_CHECKING:
    from reclaim.api.work import EngineChoice, Work
    from reclaim.engine.base import Engine
    from reclaim.progress.watch import Watch


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

    def work(self) -> Work:
        """The engine that was chosen, and progress as the command was asked to show it."""
        from reclaim.api.work import Work

        return Work(self._engine, watching)

    def spark(self) -> Any:
        """A Spark session that says nothing of its own."""
        return _choose(current()).build_session()

    def _engine(self, watch: Watch) -> Engine:
        return _choose(current()).make(watch)


def _choose(settings: Settings) -> EngineChoice:
    from reclaim.api.work import EngineChoice

    if settings.engine() == LOCAL:
        return EngineChoice("local")
    debug = os.environ.get(DEBUG_VARIABLE)
    if not debug:
        logging.getLogger().addHandler(_UNHANDLED)
    master, remote = settings.spark()
    tasks = settings["spark.tasks"]
    return EngineChoice(
        master=master,
        remote=remote,
        tasks=None if tasks is None else int(tasks),
        # What Java says of a failed job reaches us as an error.
        silent=not debug,
    )


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

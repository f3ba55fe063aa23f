"""Parts shared by commands with runs: engine, progress, logs."""

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
    """Engine of a run."""

    engine_name: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="Engine of the run: spark, or local (at most a million objects, no Java). "
            "Default: spark.",
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
            help="Number of tasks of a large job. Default: two for each core.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None

    def work(self) -> Work:
        """Return the chosen engine and progress display."""
        from reclaim.api.work import Work

        return Work(self._engine, watching)

    def spark(self) -> Any:
        """Start a Spark session without output."""
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
        # Failures of Java jobs are raised as errors.
        silent=not debug,
    )


class _Unhandled(logging.Handler):
    """Write records without a handler to stderr, as Python does by default.

    Skip records of py4j, the bridge to Java: it logs calls interrupted by Ctrl-C to the root
    logger.
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

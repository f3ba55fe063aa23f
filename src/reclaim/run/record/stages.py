"""Stages: progress of a run, reported to a person and to a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

log = logging.getLogger("reclaim.run")

FIELDS = "fields"
"""Attribute of a log record with the facts of its message, by name."""


@dataclass(slots=True)
class Stage:
    """Stage of a run; facts are added while it runs."""

    name: str
    run: str = ""
    unit: str = ""
    total: int | None = None
    """Expected number of units, if known."""
    noun: str = "snapshot"
    """The store's own word for a snapshot."""
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Watcher(Protocol):
    """Receives the start and end of stages."""

    def begin(self, stage: Stage) -> None: ...

    def end(self, stage: Stage) -> None: ...


class Silent:
    """Ignores all stages."""

    def begin(self, stage: Stage) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass


@dataclass(slots=True)
class Stages:
    """Stages of a run. Each is logged in a single line with the run's id."""

    run: str
    watcher: Watcher = field(default_factory=Silent)
    done: list[Stage] = field(default_factory=list)
    noun: str = "snapshot"
    """The store's own word for a snapshot."""

    @contextmanager
    def stage(self, name: str, *, unit: str = "", total: int | None = None) -> Iterator[Stage]:
        """Run a stage. Log an error as failed."""
        stage = Stage(name, self.run, unit, total, self.noun)
        self.watcher.begin(stage)
        started = monotonic()
        try:
            yield stage
        except BaseException as error:
            failed = {"run": self.run, "stage": name, "failed": type(error).__name__}
            log.error(as_text(failed), extra={FIELDS: failed})
            raise
        stage.seconds = monotonic() - started
        ended = {"run": self.run, "stage": name, "seconds": round(stage.seconds, 2)}
        log.info(as_text(ended | stage.facts), extra={FIELDS: ended | stage.facts})
        self.watcher.end(stage)
        self.done.append(stage)


def as_text(fields: Mapping[str, Any]) -> str:
    """Format facts for a log line."""
    return " ".join(f"{name}={value}" for name, value in fields.items())

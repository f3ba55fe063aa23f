"""Stages: how a run says what it is doing, to a person and to a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

log = logging.getLogger("reclaim.run")


@dataclass(slots=True)
class Stage:
    """One stage of a run; facts are added while it runs."""

    name: str
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Watcher(Protocol):
    """Is told when stages begin and end."""

    def begin(self, stage: Stage) -> None: ...

    def end(self, stage: Stage) -> None: ...


class Silent:
    """Shows nothing."""

    def begin(self, stage: Stage) -> None:
        pass

    def end(self, stage: Stage) -> None:
        pass


@dataclass(slots=True)
class Stages:
    """The stages of one run. Each is a line in the log, with the run's id."""

    run: str
    watcher: Watcher = field(default_factory=Silent)
    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Run a stage; one that fails is logged as failed."""
        stage = Stage(name)
        self.watcher.begin(stage)
        started = monotonic()
        try:
            yield stage
        except BaseException as error:
            log.error("run=%s stage=%s failed=%s", self.run, name, type(error).__name__)
            raise
        stage.seconds = monotonic() - started
        facts = "".join(f" {key}={value}" for key, value in stage.facts.items())
        log.info("run=%s stage=%s seconds=%.2f%s", self.run, name, stage.seconds, facts)
        self.watcher.end(stage)
        self.done.append(stage)

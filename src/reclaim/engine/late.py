"""An engine that is started late: not before a run is sure to need it, and while it does more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from reclaim.engine.base import Engine


class LateEngine:
    """Stands for the engine that a function makes, which may take seconds.

    ``begin`` lets it be made by another thread. Whoever uses the engine before it is there waits
    for it, and is told if it could not be made.
    """

    def __init__(
        self,
        make: Callable[[], Engine],
        *,
        waiting: Callable[[], AbstractContextManager[Any]] = nullcontext,
        ahead: Callable[[], bool] = lambda: True,
    ) -> None:
        """``waiting`` is entered while somebody waits. ``ahead`` says whether another thread may
        make it."""
        self._make = make
        self._waiting = waiting
        self._ahead = ahead
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Let it be made, if nobody does so already."""
        if self._thread is None and not self._is_made and self._ahead():
            # Nobody waits for it if the run ends before it is there.
            self._thread = threading.Thread(target=self._run, name="reclaim-engine", daemon=True)
            self._thread.start()

    def ready(self) -> Engine:
        """The engine, as soon as it is there."""
        self.begin()
        if not self._is_made:
            with self._waiting():
                if self._thread is None:
                    self._run()
                else:
                    self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._engine is not None
        return self._engine

    @property
    def _is_made(self) -> bool:
        """Whether it is there, or cannot be made."""
        return self._engine is not None or self._error is not None

    def _run(self) -> None:
        try:
            self._engine = self._make()
        except BaseException as error:
            self._error = error

    def __getattr__(self, name: str) -> Any:
        # Only what this class does not have comes here: what runs ask of an engine.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.ready(), name)


def late(make: Callable[[], Engine], **options: Any) -> Engine:
    """A late engine, as an engine."""
    return cast(Engine, LateEngine(make, **options))


def begin(engine: Engine) -> None:
    """Let an engine start, because the run will need it. Returns at once."""
    if isinstance(engine, LateEngine):
        engine.begin()


def wait_for(engine: Engine) -> None:
    """Return when an engine is there: before something is begun that must not wait for it."""
    if isinstance(engine, LateEngine):
        engine.ready()

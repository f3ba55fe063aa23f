"""Engine and progress of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from reclaim.engine.base import Engine
from reclaim.errors import InvalidInput
from reclaim.progress.gauge import Progress
from reclaim.progress.watch import Callback, Face, Nothing, Watch
from reclaim.run.record.stages import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = Literal["spark", "local"]
ENGINES: tuple[EngineName, ...] = ("spark", "local")
ShowProgress = Callable[[Progress], object] | Literal["rich"] | None
"""A function to call with each reading, a bar of rich, or nothing."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine for a run, with its settings."""

    name: EngineName = "spark"
    session: SparkSession | None = None
    """Session of the caller. Without it, a session starts when a run needs Spark."""
    master: str | None = None
    remote: str | None = None
    tasks: int | None = None
    """Number of tasks of a large job; by default two for each core."""
    silent: bool = True
    """Whether to discard the standard output of Java."""

    def make(self, watch: Watch) -> Engine:
        """Make the engine. Spark starts when the run needs it."""
        if self.name not in ENGINES:
            raise InvalidInput(
                f"there is no engine {self.name!r}", hint=f"choose {' or '.join(ENGINES)}"
            )
        if self.name == "local":
            return make_local()
        with hint_if_missing():
            from reclaim.engine.spark.engine import SparkEngine
            from reclaim.engine.spark.meter import SparkMeter

        def start() -> Any:
            if self.session is not None:
                return self.session
            stage, began = Stage("start Spark"), monotonic()
            watch.begin(stage)
            session = self.build_session()
            stage.seconds = monotonic() - began
            watch.end(stage)
            return session

        def measure(session: Any) -> SparkMeter:
            meter = SparkMeter(session)
            watch.measure(meter)
            return meter

        return SparkEngine(start, tasks=self.tasks, metered=measure)

    def build_session(self) -> SparkSession:
        """Build a Spark session with these settings, or return the session of this process."""
        with hint_if_missing():
            from reclaim.engine.spark.session import build_session

        return build_session(master=self.master, remote=self.remote, silent=self.silent)


def make_local() -> Engine:
    """Make the in-process engine."""
    from reclaim.engine.local.engine import LocalEngine

    return LocalEngine()


class Work:
    """Engine and watch for the runs of a caller."""

    def __init__(
        self,
        engine: Callable[[Watch], Engine],
        watching: Callable[[], AbstractContextManager[Watch]],
    ) -> None:
        self._make_engine = engine
        self._watching = watching
        self._current: tuple[Engine, Watch] | None = None

    @contextmanager
    def begin(self, *, local: bool = False) -> Iterator[tuple[Engine, Watch]]:
        """Yield the engine and the watch of a run; a run inside the block of another shares them.

        ``local`` is for a run without a listing, which needs neither Spark nor Java.
        """
        if self._current is not None:
            engine, watch = self._current
            yield (make_local() if local else engine), watch
            return
        with self._watching() as watch:
            if local:
                yield make_local(), watch
                return
            self._current = self._make_engine(watch), watch
            try:
                yield self._current
            finally:
                self._current = None


def make_work(engine: EngineChoice, progress: ShowProgress) -> Work:
    """Make the engine and the watch for a caller from Python."""

    @contextmanager
    def watching() -> Iterator[Watch]:
        with _face(progress) as face:
            watch = Watch(face)
            try:
                yield watch
            finally:
                watch.close()

    return Work(engine.make, watching)


@contextmanager
def _face(progress: ShowProgress) -> Iterator[Face]:
    if progress is None:
        yield Nothing()
    elif progress == "rich":
        from reclaim.progress.bar import showing_bar

        with showing_bar() as bar:
            yield bar
    elif callable(progress):
        yield Callback(progress)
    else:
        raise InvalidInput(f"progress is {progress!r}", hint='give it a function, or "rich"')


@contextmanager
def hint_if_missing() -> Iterator[None]:
    """Add a hint on the installation of Spark to an import error."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"this needs Spark, and {error.name} is not installed",
            hint="install it with: pip install 'reclaim[spark]'; for a small store use "
            "--engine local",
        ) from error

"""The jobs of an engine: what Spark raises in our words, and nothing left running that failed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from uuid import uuid4

from pyspark.sql import SparkSession

from reclaim.engine.spark.failures import translated
from reclaim.engine.spark.meter import SparkMeter

CANCEL_SECONDS = 10.0
"""How long Spark may take to answer that it will cancel a job."""


class Jobs:
    """Jobs of one session: under a tag of their own on a Connect server."""

    def __init__(self, spark: SparkSession, meter: SparkMeter | None = None) -> None:
        self._spark = spark
        self._meter = meter
        self._tag = f"reclaim-{uuid4().hex}"
        self._remote = ".connect." in type(spark).__module__

    @contextmanager
    def run(self) -> Iterator[None]:
        """Run a job in the block. If it ends early, Spark is asked to cancel what is left of it.

        Spark kills tasks in its own time, and does not say when the last one has ended: whoever
        has to be sure goes by the deadline that the tasks were given.
        """
        watching = self._meter.watching() if self._meter else nullcontext()
        with translated(), self._tagged(), watching:
            try:
                yield
            except Exception as error:
                if (interruption := _interruption_in(error)) is not None:
                    self._cancel()
                    raise interruption from None
                # A driver that is told of a failure has cancelled the rest; a server that
                # could not be reached goes on.
                if self._remote:
                    self._cancel()
                raise
            except BaseException:
                self._cancel()
                raise

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        if not self._remote:
            # There a tag can be cancelled only by the thread that is waiting for the job.
            yield
            return
        self._spark.addTag(self._tag)
        try:
            yield
        finally:
            self._spark.removeTag(self._tag)

    def _cancel(self) -> None:
        # A server that is gone would be waited for: not longer than a person likes to wait.
        asking = threading.Thread(target=self._ask, name="reclaim-cancel", daemon=True)
        asking.start()
        asking.join(CANCEL_SECONDS)

    def _ask(self) -> None:
        # Whatever is wrong with the session is told by the error that led here.
        with suppress(Exception):
            if self._remote:
                self._spark.interruptTag(self._tag)
            else:
                # All of the session, as Spark itself does when it is interrupted.
                self._spark.interruptAll()


def _interruption_in(error: Exception) -> BaseException | None:
    """The interruption of a job, if Spark answered that with an error of its own on the way out."""
    found: BaseException | None = error
    while isinstance(found, Exception):
        found = found.__context__
    return found

"""The jobs of an engine: translates errors, and cancels the rest of a failed job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from uuid import uuid4

from pyspark.sql import SparkSession

from reclaim.engine.spark.failures import translated
from reclaim.engine.spark.meter import SparkMeter

CANCEL_SECONDS = 10.0
"""Seconds Spark may take to confirm a cancellation."""


class Jobs:
    """Jobs of a session, under their own tag on a Connect server."""

    def __init__(self, spark: SparkSession, meter: SparkMeter | None = None) -> None:
        self._spark = spark
        self._meter = meter
        self._tag = f"reclaim-{uuid4().hex}"
        self._remote = ".connect." in type(spark).__module__

    @contextmanager
    def run(self) -> Iterator[None]:
        """Run a job in the block. If it ends early, Spark is asked to cancel the rest.

        Spark kills tasks in its own time, and does not report when the last task has ended. To be
        sure, wait for the deadline given to the tasks.
        """
        watching = self._meter.watching() if self._meter else nullcontext()
        with translated(), self._tagged(), watching:
            try:
                yield
            except Exception as error:
                if (interruption := _interruption_in(error)) is not None:
                    self._cancel()
                    raise interruption from None
                # A driver that learns of a failure has cancelled the rest; an unreachable server
                # goes on.
                if self._remote:
                    self._cancel()
                raise
            except BaseException:
                self._cancel()
                raise

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        if not self._remote:
            # Connect cancels a tag only from the thread waiting for the job.
            yield
            return
        self._spark.addTag(self._tag)
        try:
            yield
        finally:
            self._spark.removeTag(self._tag)

    def _cancel(self) -> None:
        # Do not wait long for a server that is gone.
        asking = threading.Thread(target=self._ask, name="reclaim-cancel", daemon=True)
        asking.start()
        asking.join(CANCEL_SECONDS)

    def _ask(self) -> None:
        # The error that led here describes the problem of the session.
        with suppress(Exception):
            if self._remote:
                self._spark.interruptTag(self._tag)
            else:
                # All of the session, as Spark itself does on an interrupt.
                self._spark.interruptAll()


def _interruption_in(error: Exception) -> BaseException | None:
    """Return the interruption of a job, if Spark answered it with an error of its own."""
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__context__
    return cause

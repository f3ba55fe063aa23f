"""Error reporting for interrupted runs.

After a run has changed something, any error is reported as *partial*, with the original error as
its cause: a lost database connection, for example, must not be reported as "nothing was changed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reclaim.errors import Partial, ReclaimError
from reclaim.stores.base import HeldLock

INTERRUPTED = "interrupted"
UNEXPECTED = "unexpected"


def cause_of(error: BaseException) -> str:
    """Kind of the error that ended a run, for its record."""
    if isinstance(error, ReclaimError):
        return error.kind
    return UNEXPECTED if isinstance(error, Exception) else INTERRUPTED


@contextmanager
def report_as_partial(
    run_id: str, lock: HeldLock, changed: Callable[[], bool], *, again: str
) -> Iterator[None]:
    """Convert every error of the block to ``Partial`` once the run has changed something.

    Interruptions keep their type, with a note on how long tasks may hold the lock.
    """
    try:
        yield
    except Partial:
        raise
    except Exception as error:
        if not changed():
            raise
        message = sentence_of(error)
        raise Partial(
            f"run {run_id} was interrupted: {message}",
            hint="; ".join([again, *lock_left(run_id, lock)]),
            run=run_id,
            cause={"kind": cause_of(error), "message": message},
        ) from error
    except BaseException as interruption:
        for note in lock_left(run_id, lock):
            interruption.add_note(note)
        raise


def sentence_of(error: Exception) -> str:
    """Message of an error in a single line, with its type for unexpected errors."""
    if isinstance(error, ReclaimError):
        return error.message
    first_line = str(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def lock_left(run_id: str, lock: HeldLock) -> list[str]:
    """Time at which the lock is free, if tasks may still be running."""
    if lock.free_at is None:
        return []
    return [
        f"run {run_id} may still be working on executors until {lock.free_at:%F %T} UTC; "
        "the lock is free then"
    ]

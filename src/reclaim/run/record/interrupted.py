"""Ends of runs that do not come to their end.

Once a run has changed something, whatever stops it is told as *partial*: a database that went away
then must not say that nothing was changed. The error that stopped it is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reclaim.errors import Partial, ReclaimError
from reclaim.stores.base import HeldLock

INTERRUPTED = "interrupted"
UNEXPECTED = "unexpected"


def cause_of(error: BaseException) -> str:
    """The kind of what ended a run, for its record."""
    if isinstance(error, ReclaimError):
        return error.kind
    return UNEXPECTED if isinstance(error, Exception) else INTERRUPTED


@contextmanager
def told_as_partial(
    run_id: str, lock: HeldLock, changed: Callable[[], bool], *, again: str
) -> Iterator[None]:
    """Make every error of the block a ``Partial``, once the run has changed something.

    An interruption stays what it is, and is told until when the lock is left to tasks.
    """
    try:
        yield
    except Partial:
        raise
    except Exception as error:
        if not changed():
            raise
        said = sentence_of(error)
        raise Partial(
            f"run {run_id} stopped on the way: {said}",
            hint="; ".join([again, *lock_left(run_id, lock)]),
            run=run_id,
            cause={"kind": cause_of(error), "message": said},
        ) from error
    except BaseException as interruption:
        for note in lock_left(run_id, lock):
            interruption.add_note(note)
        raise


def sentence_of(error: Exception) -> str:
    """The sentence of an error, in one line; with its type if nobody raised it on purpose."""
    if isinstance(error, ReclaimError):
        return error.message
    said = str(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def lock_left(run_id: str, lock: HeldLock) -> list[str]:
    """Until when nobody gets the lock, if tasks may still be at work."""
    if lock.free_at is None:
        return []
    return [
        f"run {run_id} may still be working on executors until {lock.free_at:%F %T} UTC; "
        "the lock is free then"
    ]

"""Errors of obstore and the operating system, in the words of ``reclaim.errors``. Only here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions as foreign

from reclaim.errors import (
    AlreadyExists,
    Corrupt,
    InvalidInput,
    NotFound,
    OutOfSpace,
    ReclaimError,
    StorageDenied,
    StorageUnavailable,
)


@contextmanager
def translated(action: str, address: str) -> Iterator[None]:
    """Turn what obstore and the operating system raise into the tree of ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except (FileNotFoundError, foreign.NotFoundError) as error:
        raise NotFound(f"cannot {action} {address}: there is no such object") from error
    except (foreign.BaseError, OSError, ValueError) as error:
        raise _translate(action, address, error) from error


def _translate(action: str, address: str, error: Exception) -> ReclaimError:
    said = str(error).split("\n", 1)[0]
    text = str(error)
    what = f"cannot {action} {address}: {said}"
    if isinstance(error, foreign.AlreadyExistsError | foreign.PreconditionError):
        return AlreadyExists(f"cannot {action} {address}: it exists already")
    if isinstance(error, PermissionError | foreign.PermissionDeniedError) or (
        "Permission denied" in text
    ):
        return StorageDenied(what, hint="check the permissions on the storage")
    if isinstance(error, foreign.UnauthenticatedError):
        return StorageDenied(what, hint="check the storage credentials in the environment")
    if "os error 28" in text or "os error 122" in text or getattr(error, "errno", 0) in (28, 122):
        return OutOfSpace(what, hint="free some space and run it again; nothing was half written")
    if isinstance(error, foreign.InvalidPathError | foreign.UnknownConfigurationKeyError):
        return InvalidInput(what)
    if isinstance(error, ValueError):
        return InvalidInput(what)
    if isinstance(error, foreign.NotSupportedError):
        return InvalidInput(what, hint="this storage does not offer it")
    if isinstance(error, foreign.JoinError):
        return Corrupt(what)
    return StorageUnavailable(what, hint="check that the storage is reachable, then try again")

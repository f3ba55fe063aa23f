"""The errors of Reclaim as ``OSError``, which callers of fsspec expect."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from reclaim.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    InvalidInput,
    LeaseLapsed,
    NotFound,
    OutOfSpace,
    ReclaimError,
    Refused,
    StorageDenied,
)

_NUMBERS: tuple[tuple[type[ReclaimError], int], ...] = (
    (NotFound, errno.ENOENT),
    # Never ENOENT: zarr reads a missing chunk as zeros.
    (Gone, errno.ESTALE),
    (AlreadyExists, errno.EEXIST),
    (StorageDenied, errno.EACCES),
    (Refused, errno.EPERM),
    (InvalidInput, errno.EINVAL),
    (OutOfSpace, errno.ENOSPC),
    (LeaseLapsed, errno.ESTALE),
    (Conflict, errno.EBUSY),
)
"""Error numbers; all other errors are EIO. Python derives the subclass of ``OSError`` from them."""


def os_error(number: int, message: str, path: str) -> OSError:
    """An error of a subclass of ``OSError`` that fits the number."""
    return OSError(number, message, path)


@contextmanager
def os_errors(path: str, *, reading: bool = False) -> Iterator[None]:
    """Raise errors of Reclaim as ``OSError``, with message and hint in the text.

    A path without a valid form counts as missing when it is only looked up.
    """
    try:
        yield
    except ReclaimError as error:
        number = next((n for kind, n in _NUMBERS if isinstance(error, kind)), errno.EIO)
        if reading and number == errno.EINVAL:
            number = errno.ENOENT
        text = f"{error.message} ({error.hint})" if error.hint else error.message
        raise os_error(number, text, path) from error

"""The only place where errors of obstore and the operating system become ``reclaim.errors``."""

from __future__ import annotations

import re
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

_INSTANCE_CREDENTIALS = "http://169.254.169.254/"
"""Address from which a cloud machine reads credentials when none are set."""
_DENIED = re.compile(
    "<Code>(InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|AccessDenied)<"
)


@contextmanager
def translated(action: str, address: str) -> Iterator[None]:
    """Turn errors of obstore and the operating system into the classes of ``reclaim.errors``."""
    try:
        yield
    except ReclaimError:
        raise
    except (FileNotFoundError, foreign.NotFoundError) as error:
        if (mistake := _s3_mistake(action, address, str(error))) is not None:
            raise mistake from error
        raise NotFound(f"cannot {action} {address}: there is no such object") from error
    except (foreign.BaseError, OSError, ValueError) as error:
        raise _translate(action, address, error) from error


def _s3_mistake(action: str, address: str, text: str) -> ReclaimError | None:
    """Return the error for a wrong S3 setting, if the error text shows such a mistake."""
    what = f"cannot {action} {address}"
    if "<Code>NoSuchBucket</Code>" in text:
        bucket = re.search("<BucketName>([^<]+)<", text)
        named = f"bucket {bucket[1]}" if bucket else "bucket"
        return StorageUnavailable(
            f"{what}: the {named} does not exist",
            hint="check the name of the bucket, and AWS_ENDPOINT_URL",
        )
    if "source: BadScheme" in text:
        return InvalidInput(
            f"{what}: the endpoint is an http:// address, and only https:// is allowed",
            hint="set AWS_ALLOW_HTTP=true for an endpoint without TLS",
        )
    if _INSTANCE_CREDENTIALS in text:
        return StorageDenied(
            f"{what}: no S3 credentials were found",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        )
    if denied := _DENIED.search(text):
        return StorageDenied(
            f"{what}: the server refuses the S3 credentials: {denied[1]}",
            hint="check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of that account",
        )
    return None


def _translate(action: str, address: str, error: Exception) -> ReclaimError:
    said = str(error).split("\n", 1)[0]
    text = str(error)
    what = f"cannot {action} {address}: {said}"
    if (mistake := _s3_mistake(action, address, text)) is not None:
        return mistake
    if isinstance(error, foreign.AlreadyExistsError | foreign.PreconditionError):
        return AlreadyExists(f"cannot {action} {address}: it exists already")
    if isinstance(error, PermissionError | foreign.PermissionDeniedError) or (
        "Permission denied" in text
    ):
        return StorageDenied(what, hint="check the permissions on the storage")
    if isinstance(error, foreign.UnauthenticatedError):
        return StorageDenied(what, hint="check the storage credentials in the environment")
    if "os error 28" in text or "os error 122" in text or getattr(error, "errno", 0) in (28, 122):
        return OutOfSpace(what, hint="free some space and run it again; no object is half written")
    if isinstance(error, foreign.InvalidPathError | foreign.UnknownConfigurationKeyError):
        return InvalidInput(what)
    if isinstance(error, ValueError):
        return InvalidInput(what)
    if isinstance(error, foreign.NotSupportedError):
        return InvalidInput(what, hint="this storage does not support it")
    if isinstance(error, foreign.JoinError):
        return Corrupt(what)
    return StorageUnavailable(what, hint="check that the storage is reachable, then try again")

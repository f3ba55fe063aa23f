"""Icechunk's own library, which edits the history of a repository when snapshots expire.

It is an optional dependency, imported only for an edit.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from reclaim.errors import Refused, Unavailable
from reclaim.urls import path_of

MODULE = "icechunk"
LOG = "ICECHUNK_LOG"
"""Environment variable for the library's log level."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_PANIC = "PanicException"
"""Error raised by a panicking Rust library; not an ``Exception``."""


def load_library() -> ModuleType:
    """Import the library; refuse if it is not installed."""
    # The library warns about every local disk; plans contain their own warning.
    os.environ.setdefault(LOG, "error")
    try:
        return importlib.import_module(MODULE)
    except ImportError as error:
        raise Refused(
            f"expiration by age requires Icechunk's library, which is not installed: {error}",
            hint="nothing was changed; install it with: pip install 'reclaim[icechunk]'",
        ) from error


def expire_snapshots(
    library: ModuleType, url: str, older_than: datetime, *, delete_tags: bool, delete_branches: bool
) -> None:
    """Let the library remove snapshots from the history of the repository at a URL.

    After an error, the library may have made changes.
    """
    with _translated(url):
        repository = library.Repository.open(_storage(library, url))
        repository.expire_snapshots(
            older_than, delete_expired_tags=delete_tags, delete_expired_branches=delete_branches
        )


def _storage(library: ModuleType, url: str) -> Any:
    """The library's own access to a repository, with credentials from the environment."""
    if url.startswith("file:"):
        return library.local_filesystem_storage(path_of(url))
    parts = urlsplit(url)
    place: dict[str, Any] = {"prefix": parts.path.strip("/"), "from_env": True}
    if parts.scheme == "s3":
        endpoint = _from_environment(_ENDPOINTS)
        if endpoint is not None:
            place |= {
                "endpoint_url": endpoint,
                "allow_http": endpoint.startswith("http://"),
                "force_path_style": True,
            }
        return library.s3_storage(bucket=parts.netloc, region=_from_environment(_REGIONS), **place)
    if parts.scheme == "gs":
        return library.gcs_storage(bucket=parts.netloc, **place)
    if parts.scheme == "az":
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        return library.azure_storage(account=account, container=parts.netloc, **place)
    raise Refused(
        f"Icechunk's library cannot open {url}",
        hint="nothing was changed; supported are local disks, S3, GCS (gs:) and Azure (az:)",
    )


def _from_environment(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    """Translate errors of the library, including panics."""
    try:
        yield
    except Refused:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        message = str(error).split("\n", 1)[0]
        raise Unavailable(
            f"Icechunk's library could not expire snapshots of {url}: {message}",
            hint="see the message; changes made before the error, if any, remain",
        ) from error

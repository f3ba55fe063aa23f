"""Small files beside a store: written atomically, and validated when read.

A power cut, a full disk or a person may leave anything in their place. An unreadable file is an
error with the file name and a remedy; it never counts as missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reclaim.errors import Corrupt
from reclaim.ids import new_uid
from reclaim.storage import Storage
from reclaim.urls import path_of

SUFFIX, PART = ".json", ".part"
LARGEST = 16 * 1024 * 1024
"""Maximum number of bytes read from a small file."""

_FAULTS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class Unreadable(Exception):
    """A file exists but has invalid contents."""


def write_document(storage: Storage, address: str, document: Mapping[Any, Any]) -> None:
    """Write a document atomically; after a power cut, either the old or the new document exists."""
    write_file(storage, address, json.dumps(document).encode())


def write_file(storage: Storage, address: str, data: bytes) -> None:
    """Write a file atomically, like ``write_document``."""
    if storage.at_once > 1:
        storage.put(address, data)
        return
    part = f"{address}.{new_uid()}{PART}"
    storage.put(part, data)
    try:
        storage.flush([part])
        storage.move(part, address, size=len(data))
    except BaseException:
        storage.delete(part)
        raise
    storage.flush([address])


def read_document(storage: Storage, address: str, *, largest: int = LARGEST) -> dict[str, Any]:
    """Read the document in a file; raise ``Unreadable`` for anything else."""
    if (size := storage.head(address).size) > largest:
        raise Unreadable(f"it has {size} bytes")
    if not size:
        raise Unreadable("it is empty")
    try:
        document = json.loads(storage.get(address))
    except _FAULTS as error:
        raise Unreadable(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Unreadable("it is not a JSON object")
    return document


def text_in(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise Unreadable(f"{name} is not a text")
    return value


def time_in(document: Mapping[str, Any], name: str) -> datetime:
    try:
        time = datetime.fromisoformat(text_in(document, name))
    except ValueError as error:
        raise Unreadable(f"{name} is not a time") from error
    if time.tzinfo is None:
        raise Unreadable(f"{name} is a time without a zone")
    return time


def damaged(storage: Storage, address: str, what: str, why: object, *, hint: str) -> Corrupt:
    """Return an error with the file name and a remedy."""
    return Corrupt(
        f"{what} in {shown(storage, address)} cannot be read: {why}", hint=hint, address=address
    )


def shown(storage: Storage, address: str) -> str:
    """Location of a file, as shown to people."""
    url = storage.url
    return f"{path_of(url) if url.startswith('file://') else url}/{address}"

"""Storage roots: one catalog each, and never nested.

A marker at the root names the catalog of a storage. A catalog opening a storage with another
marker, or without a marker (such as an unmounted disk), stops before it writes or deletes.
"""

from __future__ import annotations

import json
from contextlib import suppress

from reclaim.catalog.addresses import HOME, MARKER
from reclaim.catalog.workspace import Externals
from reclaim.errors import AlreadyExists, ForeignStorage, NestedStorage, NotFound, ReclaimError
from reclaim.storage import Storage


def claim(storage: Storage, uid: str) -> None:
    """Mark a storage as belonging to this catalog.

    The marker is written before checking for nested roots, so of two catalogs claiming nested roots
    at the same time, at least one detects the other.
    """
    try:
        storage.put(MARKER, json.dumps({"catalog": uid}).encode(), create=True)
    except AlreadyExists as error:
        if owner(storage) != uid:
            raise ForeignStorage(
                f"the storage {storage.url} already belongs to a catalog",
                hint=f"choose an empty location; if no catalog uses it, remove {MARKER} from it",
            ) from error
    storage.flush([MARKER])
    if _marked_above(storage.url):
        raise NestedStorage(
            f"the storage {storage.url} lies inside the storage of another catalog",
            hint="choose a location outside it",
        )
    for stored in storage.list():
        if stored.address.endswith("/" + MARKER):
            raise NestedStorage(
                f"another catalog's storage lies inside {storage.url}, at {stored.address}",
                hint="choose a location next to it",
            )


def abandon(storage: Storage, uid: str) -> None:
    """Remove the marker after creating a catalog failed."""
    with suppress(ReclaimError):
        if owner(storage) == uid:
            storage.delete(HOME)
            storage.delete(MARKER)


def check(storage: Storage, uid: str) -> None:
    """Fail unless the storage belongs to this catalog."""
    storage_owner = owner(storage)
    if storage_owner is None:
        raise ForeignStorage(
            f"the storage {storage.url} does not belong to this catalog: it has no {MARKER}",
            hint="mount or restore the right storage; nothing was changed",
        )
    if storage_owner != uid:
        raise ForeignStorage(
            f"the storage {storage.url} belongs to another catalog",
            hint="check where the database and the storage of this catalog are",
        )


def owner(storage: Storage) -> str | None:
    """Uid of the catalog a storage belongs to."""
    try:
        return str(json.loads(storage.get(MARKER))["catalog"])
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def _marked_above(url: str) -> bool:
    externals = Externals()
    scheme, _, path = url.partition("://")
    parts = path.rstrip("/").split("/")
    return any(
        externals.exists(f"{scheme}://{'/'.join(parts[:depth])}/{MARKER}")
        for depth in range(1, len(parts))
    )

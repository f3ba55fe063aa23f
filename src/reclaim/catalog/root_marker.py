"""Storage roots: one catalog each, and none inside another.

A marker at the root says which catalog a storage belongs to. A catalog that opens a storage with
another marker, or with none (a disk that is not mounted), stops before it writes or deletes.
"""

from __future__ import annotations

import json
from contextlib import suppress

from reclaim.catalog.addresses import HOME, MARKER
from reclaim.catalog.workspace import Externals
from reclaim.errors import AlreadyExists, ForeignStorage, NestedStorage, NotFound, ReclaimError
from reclaim.storage import Storage


def claim(storage: Storage, uid: str) -> None:
    """Mark a storage as this catalog's.

    The marker is written before the neighbours are looked at, so of two catalogs that claim
    nested roots at once, at least one sees the other.
    """
    try:
        storage.put(MARKER, json.dumps({"catalog": uid}).encode(), create=True)
    except AlreadyExists as error:
        if owner(storage) != uid:
            raise ForeignStorage(
                f"the storage {storage.url} belongs to a catalog already",
                hint=f"choose an empty place; if no catalog uses it, remove {MARKER} from it",
            ) from error
    storage.flush([MARKER])
    if _marked_above(storage.url):
        raise NestedStorage(
            f"the storage {storage.url} lies inside the storage of another catalog",
            hint="choose a place outside it",
        )
    for stored in storage.list():
        if stored.address.endswith("/" + MARKER):
            raise NestedStorage(
                f"another catalog's storage lies inside {storage.url}, at {stored.address}",
                hint="choose a place beside it",
            )


def abandon(storage: Storage, uid: str) -> None:
    """Take the marker back after a catalog could not be made."""
    with suppress(ReclaimError):
        if owner(storage) == uid:
            storage.delete(HOME)
            storage.delete(MARKER)


def check(storage: Storage, uid: str) -> None:
    """Fail unless the storage is this catalog's."""
    found = owner(storage)
    if found is None:
        raise ForeignStorage(
            f"the storage {storage.url} is not the one that this catalog was made with: "
            f"it has no {MARKER}",
            hint="mount or restore the right storage; nothing was changed",
        )
    if found != uid:
        raise ForeignStorage(
            f"the storage {storage.url} belongs to another catalog",
            hint="check where the database and the storage of this catalog are",
        )


def owner(storage: Storage) -> str | None:
    """The catalog that a storage belongs to."""
    try:
        return str(json.loads(storage.get(MARKER))["catalog"])
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def _marked_above(url: str) -> bool:
    externals = Externals()
    scheme, _, rest = url.partition("://")
    parts = rest.rstrip("/").split("/")
    return any(
        externals.exists(f"{scheme}://{'/'.join(parts[:depth])}/{MARKER}")
        for depth in range(1, len(parts))
    )

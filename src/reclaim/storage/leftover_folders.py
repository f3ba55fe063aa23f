"""Empty folders a bucket still lists.

Amazon's S3 lists a folder only while it contains an object. SeaweedFS keeps the folders of deleted
objects, and lists them.
"""

from __future__ import annotations

from reclaim.storage.base import Storage


def is_leftover(storage: Storage, folder: str) -> bool:
    """Return whether a listed folder is left over from deleted objects.

    On a disk a folder exists like a file, empty or not: it can be removed.
    """
    if storage.url.startswith("file:"):
        return False
    return next(iter(storage.list(folder.rstrip("/"))), None) is None

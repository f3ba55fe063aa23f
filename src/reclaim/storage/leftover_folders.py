"""Folders that a bucket lists although nothing is in them.

Amazon's S3 has no folders: one is listed as long as an object lies in it. SeaweedFS keeps the
folders of objects that were deleted, and lists them.
"""

from __future__ import annotations

from reclaim.storage.base import Storage


def is_leftover(storage: Storage, folder: str) -> bool:
    """Whether a folder that was listed is left over from objects that are gone.

    On a disk a folder is there like a file, whatever is in it: it can be removed.
    """
    if storage.url.startswith("file:"):
        return False
    return next(iter(storage.list(folder.rstrip("/"))), None) is None

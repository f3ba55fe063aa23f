"""Storage: objects in local folders, S3, GCS and Azure, behind the interface in ``base``.

An *object* has an address relative to the root of its storage. A *key range* is a piece of a
folder's listing. *Buckets* add S3 features missing in obstore: versions, delete markers, odd keys.
"""

from reclaim.storage.base import LISTED, LastCheck, Payload, Storage, SwapsObjects, no_check
from reclaim.storage.key_range import KeyRange, spread
from reclaim.storage.leftover_folders import is_leftover
from reclaim.storage.objects import PIECE, ObjectStorage, make_folder
from reclaim.storage.translation import translated

__all__ = [
    "LISTED",
    "PIECE",
    "KeyRange",
    "LastCheck",
    "ObjectStorage",
    "Payload",
    "Storage",
    "SwapsObjects",
    "is_leftover",
    "make_folder",
    "no_check",
    "spread",
    "translated",
]

"""A writer of TerminusDB stores for tests, beside the real ones that the tests carry.

What a collector reads is as the real library writes it: labels, headers, dictionaries, parents,
rollups. The lists of triples are empty, so that a server could open such a layer and find nothing.
"""

from tests.support.terminus.database import TerminusDatabase, populate
from tests.support.terminus.encode import (
    ValueFiles,
    encode_archive,
    encode_dictionary,
    encode_logarray,
    encode_values,
)
from tests.support.terminus.store import StoreWriter

__all__ = [
    "StoreWriter",
    "TerminusDatabase",
    "ValueFiles",
    "encode_archive",
    "encode_dictionary",
    "encode_logarray",
    "encode_values",
    "populate",
]

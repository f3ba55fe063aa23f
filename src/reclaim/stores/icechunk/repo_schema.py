"""Schema of ``repo``: every known field, so that all of them are preserved."""

from __future__ import annotations

from reclaim.stores.icechunk.flatbuffer_schema import (
    Bytes,
    Fixed,
    Many,
    Number,
    String,
    TableSchema,
    Union,
)
from reclaim.stores.icechunk.object_ids import ID_BYTES

BYTE, BOOL = Number("<B"), Number("<B")
INSTANT = Number("<Q")
"""Microseconds since 1970."""
ID = Fixed(ID_BYTES)

METADATA = Many(TableSchema({0: String(), 1: Bytes()}))

# Slots of ``repo``, and of its tables.
SPEC, TAGS, BRANCHES, DELETED_TAGS, SNAPSHOTS, STATUS, REPO_METADATA = range(7)
UPDATES, BEFORE_UPDATES = 7, 8
REF_NAME, REF_SNAPSHOT = 0, 1
INFO_ID, INFO_PARENT, INFO_FLUSHED_AT, INFO_MESSAGE, INFO_METADATA, INFO_PRUNED = range(6)
UPDATE_TYPE, UPDATE_VALUE, UPDATE_AT, UPDATE_BACKUP = range(4)

REF = TableSchema({REF_NAME: String(), REF_SNAPSHOT: Number("<I")})
INFO = TableSchema(
    {
        INFO_ID: ID,
        INFO_PARENT: Number("<i"),
        INFO_FLUSHED_AT: INSTANT,
        INFO_MESSAGE: String(),
        INFO_METADATA: METADATA,
        INFO_PRUNED: Bytes(ID_BYTES),
    }
)
_STATUS = TableSchema({0: BYTE, 1: INSTANT, 2: String()})

GC_RAN = 13
"""Type of the log entry written by a collection."""
EXPIRATION_RAN = 14
"""Type of the log entry written by an expiration."""
_NOTHING = TableSchema({})
_NAME = TableSchema({0: String()})
_NAME_AND_SNAPSHOT = TableSchema({0: String(), 1: ID})
_UPDATE_KINDS = {
    1: _NOTHING,  # the repository was initialized
    2: TableSchema({0: BYTE, 1: BYTE}),  # upgraded from one spec to another
    3: _NOTHING,  # its configuration changed
    4: _NOTHING,  # its metadata changed
    5: _NAME,  # a tag was created
    6: _NAME_AND_SNAPSHOT,  # a tag was deleted
    7: _NAME,  # a branch was created
    8: _NAME_AND_SNAPSHOT,  # a branch was deleted
    9: _NAME_AND_SNAPSHOT,  # a branch was reset
    10: _NAME_AND_SNAPSHOT,  # a commit
    11: TableSchema({0: String(), 1: ID, 2: ID}),  # a commit was amended
    12: TableSchema({0: ID}),  # a snapshot on no branch
    GC_RAN: _NOTHING,
    EXPIRATION_RAN: _NOTHING,
    15: TableSchema({0: Number("<H"), 1: BOOL, 2: BOOL}),  # a feature flag changed
    16: TableSchema({0: _STATUS}),  # the status changed
}
UPDATE = TableSchema(
    {
        UPDATE_TYPE: BYTE,
        UPDATE_VALUE: Union(_UPDATE_KINDS),
        UPDATE_AT: INSTANT,
        UPDATE_BACKUP: String(),
    }
)
REPO = TableSchema(
    {
        SPEC: BYTE,
        TAGS: Many(REF),
        BRANCHES: Many(REF),
        DELETED_TAGS: Many(String()),
        SNAPSHOTS: Many(INFO),
        STATUS: _STATUS,
        REPO_METADATA: METADATA,
        UPDATES: Many(UPDATE),
        BEFORE_UPDATES: String(),
        9: Bytes(),  # the configuration
        10: Bytes(2),  # feature flags that are on
        11: Bytes(2),  # and off
        12: Bytes(),  # reserved
    }
)

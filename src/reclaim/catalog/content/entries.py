"""Entries: logical paths with the addresses of their bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reclaim.catalog import addresses
from reclaim.clock import from_micros, to_micros

COLUMNS = ("path", "address", "size", "created_at", "checksum", "content_type", "metadata")
"""Columns of an entry in the database and in ranges, in this order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Path in a commit or in staging.

    ``created_at`` is the entry's creation date, preserved by moves. ``checksum`` starts with the
    name of its method and is empty if none was computed.
    """

    path: str
    address: str
    size: int
    created_at: datetime
    checksum: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_values(
        cls,
        path: str,
        address: str,
        size: int,
        created_at: int,
        checksum: str,
        content_type: str,
        metadata: str,
    ) -> Entry:
        """Return an entry from the stored values of ``COLUMNS``."""
        return cls(
            path,
            address,
            size,
            from_micros(created_at),
            checksum,
            content_type,
            json.loads(metadata) if metadata else {},
        )

    def values(self) -> tuple[Any, ...]:
        """Stored values of ``COLUMNS``."""
        return (
            self.path,
            self.address,
            self.size,
            to_micros(self.created_at),
            self.checksum,
            self.content_type,
            dump_metadata(self.metadata),
        )

    @property
    def owned(self) -> bool:
        """Whether the bytes are where Reclaim may collect them."""
        return not addresses.is_external(self.address)


def dump_metadata(metadata: Mapping[str, str]) -> str:
    """Stored form of metadata: equal content gives equal text."""
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False) if metadata else ""


def same_content(left: Entry | None, right: Entry | None) -> bool:
    """Whether two entries of a path are equal to readers."""
    if left is None or right is None:
        return left is right
    if left.content_type != right.content_type or left.metadata != right.metadata:
        return False
    if left.address == right.address:
        return True
    return bool(left.checksum) and (left.checksum, left.size) == (right.checksum, right.size)

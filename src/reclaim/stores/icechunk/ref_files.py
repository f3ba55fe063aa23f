"""Files of branches and tags in spec 1: ``refs/branch.NAME/ref.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reclaim.errors import Corrupt
from reclaim.model import RefKind
from reclaim.stores.icechunk.object_ids import is_id

FILE = "ref.json"
DELETED = "ref.json.deleted"
"""Marker beside the file of a deleted tag, whose name cannot be used again."""
_KINDS = {"branch": RefKind.BRANCH, "tag": RefKind.TAG}


@dataclass(frozen=True, slots=True)
class RefNames:
    """Refs in a listing: the file address of each ref, and names of deleted tags."""

    files: Mapping[tuple[RefKind, str], str]
    deleted_tags: frozenset[str]


def find_refs(addresses: Iterable[str], folder: str) -> RefNames:
    """Find the refs among the addresses below the folder of refs.

    Refuse other addresses: they may be refs of a later version.
    """
    files: dict[tuple[RefKind, str], str] = {}
    deleted_tags: set[str] = set()
    for address in addresses:
        directory, _, file = address.removeprefix(folder).strip("/").partition("/")
        prefix, _, name = directory.partition(".")
        if prefix not in _KINDS or not name or file not in (FILE, DELETED):
            raise Corrupt(
                f"{address} is neither a branch nor a tag",
                hint="find its writer, and move it elsewhere; nothing was deleted",
            )
        if file == FILE:
            files[_KINDS[prefix], name] = address
        elif _KINDS[prefix] is RefKind.TAG:
            deleted_tags.add(name)
    existing = {
        (kind, name): address
        for (kind, name), address in files.items()
        if kind is not RefKind.TAG or name not in deleted_tags
    }
    return RefNames(existing, frozenset(deleted_tags))


def decode_ref(data: bytes, address: str) -> str:
    """Snapshot named in the file of a ref."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    snapshot = document.get("snapshot") if isinstance(document, dict) else None
    if not isinstance(snapshot, str) or not is_id(snapshot):
        raise Corrupt(
            f"{address} does not name a snapshot",
            hint="restore it from a backup; nothing was deleted",
        )
    return snapshot

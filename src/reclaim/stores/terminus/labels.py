"""Labels: the refs of a store, one small file each.

``<name>.label`` holds a version and the id of a layer, on separate lines; a label without a layer
has an empty second line. A label is rewritten in place under a lock, so a read without the lock may
see a partial write. Such a label is ``Corrupt``; it never counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from reclaim.errors import Corrupt
from reclaim.model import SnapshotId

SUFFIX = ".label"

SYSTEM = (
    "terminusdb:///system/data",
    "terminusdb:///system/schema",
    "http://terminusdb.com/schema/ref",
    "http://terminusdb.com/schema/repository",
    "http://terminusdb.com/schema/woql",
)
"""Labels present in every server's store."""

_LABEL = re.compile(rb"([0-9]{1,20})\n([0-9a-f]{40})?\n")
_ESCAPE = re.compile("%[0-9A-F]{2}")
_ENCODED = re.compile("(?:[^%]|%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class Label:
    """A name pointing at a layer, or without a layer yet."""

    name: str
    version: int
    layer: SnapshotId | None


def encode_name(name: str) -> str:
    """Name as written by a server in a file name: form-encoded, in lower case."""
    return _ESCAPE.sub(lambda escape: escape[0].lower(), quote(name, safe=""))


def decode_name(encoded: str) -> str:
    if not _ENCODED.fullmatch(encoded):
        raise Corrupt(f"the name of the label {encoded!r} is not form-encoded")
    try:
        return unquote_to_bytes(encoded.replace("+", " ")).decode()
    except UnicodeError:
        raise Corrupt(f"the name of the label {encoded!r} is not UTF-8") from None


def file_name(name: str) -> str:
    return encode_name(name) + SUFFIX


def parse_label(file: str, data: bytes) -> Label:
    """Parse the label in a file; the file name (without folder) contains the label's name."""
    if not file.endswith(SUFFIX):
        raise Corrupt(f"{file!r} is not the name of a label's file")
    name = decode_name(file.removesuffix(SUFFIX))
    match = _LABEL.fullmatch(data)
    if match is None:
        raise Corrupt(
            f"the label {name} cannot be read: it holds {data[:80]!r}",
            hint="check whether a server is writing it; restore it if it is damaged",
        )
    return Label(name, int(match[1]), SnapshotId(match[2].decode()) if match[2] else None)


def format_label(label: Label) -> bytes:
    return f"{label.version}\n{label.layer or ''}\n".encode()


def missing_system(labels: Iterable[Label]) -> list[str]:
    """Labels of a server's own graphs which are missing, or have no layer."""
    present = {label.name for label in labels if label.layer is not None}
    return [name for name in SYSTEM if name not in present]

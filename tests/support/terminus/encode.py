"""The encodings of a store's files, the other way round: see ``reclaim.stores.terminus``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

BLOCK = 8
STRING = 0
"""The number of the datatype of plain strings."""

NO_WIDTHS: Mapping[int, int] = {}


class ValueFiles(NamedTuple):
    """The four files of a value dictionary, in the order of their numbers in an archive."""

    types: bytes
    type_offsets: bytes
    blocks: bytes
    offsets: bytes


def encode_vbyte(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F)
        number >>= 7
    out.append(number | 0x80)
    return bytes(out)


def encode_logarray(
    values: Sequence[int], *, largest: int | None = None, control_first: bool = False
) -> bytes:
    """An array as wide as its largest number needs, or as ``largest`` would; 0 needs one bit."""
    if largest is None and values:
        largest = max(values)
    width = 0 if largest is None else max(1, largest.bit_length())
    bits = 0
    for value in values:
        bits = bits << width | value
    words = -(-len(values) * width // 64)
    packed = (bits << (words * 64 - len(values) * width)).to_bytes(words * 8, "big")
    low, high = len(values) & 0xFFFFFFFF, len(values) >> 32
    control = low.to_bytes(4, "big") + bytes([width]) + high.to_bytes(3, "big")
    return control + packed if control_first else packed + control


def encode_dictionary(entries: Iterable[bytes]) -> tuple[bytes, bytes]:
    """A dictionary of nodes or predicates, from sorted entries: its blocks and their offsets."""
    files = encode_values([(STRING, entry) for entry in entries])
    return files.blocks, files.offsets


def encode_values(
    values: Iterable[tuple[int, bytes]], *, widths: Mapping[int, int] = NO_WIDTHS
) -> ValueFiles:
    """A dictionary of values with their datatypes, sorted by datatype and then by bytes.

    ``widths`` says which datatypes have records of 4 or of 8 bytes. As in the real library the
    offset of the end decides on the width of the offsets, and is then left out.
    """
    blocks = bytearray()
    ends: list[int] = []
    types: list[int] = []
    type_offsets: list[int] = []
    block: list[bytes] = []
    count = 0

    def flush() -> None:
        if block:
            blocks.extend(_encode_block(block, widths.get(types[-1], 0)))
            ends.append(len(blocks))
            block.clear()

    for datatype, value in values:
        if not types or types[-1] != datatype:
            flush()
            if types:
                type_offsets.append(len(ends) - 1)
            types.append(datatype)
        elif len(block) == BLOCK:
            flush()
        block.append(value)
        count += 1
    flush()
    return ValueFiles(
        encode_logarray(types),
        encode_logarray(type_offsets),
        bytes(blocks) + count.to_bytes(8, "big"),
        encode_logarray(ends[:-1], largest=ends[-1] if ends else None),
    )


def _encode_block(entries: Sequence[bytes], width: int) -> bytes:
    coding = {0: 0, 4: 3, 8: 4}[width]
    head = entries[0]
    out = bytearray([len(entries) - 1 | coding << 3])
    out += encode_vbyte(len(head)) + head
    own = bytearray()
    before = head
    for entry in entries[1:]:
        shared = _shared(before, entry)
        out += encode_vbyte(shared)
        if not width:
            out += encode_vbyte(len(entry) - shared)
        own += entry[shared:]
        before = entry
    return bytes(out + own)


def _shared(before: bytes, entry: bytes) -> int:
    for at, (one, other) in enumerate(zip(before, entry, strict=False)):
        if one != other:
            return at
    return min(len(before), len(entry))


def encode_archive(files: Mapping[int, bytes]) -> bytes:
    """An archive of files by their numbers."""
    presence = 0
    ends: list[int] = []
    end = 0
    for number in sorted(files):
        presence |= 1 << (63 - number)
        end += len(files[number])
        ends.append(end)
    header = presence.to_bytes(8, "big") + encode_logarray(ends, control_first=True)
    return header + b"".join(files[number] for number in sorted(files))

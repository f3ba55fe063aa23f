"""Dictionaries of byte strings, front-coded in blocks of up to eight.

A block is a control byte (low three bits + 1 = entries; high bits 0 = entries of any size, 3 = of 4
bytes, 4 = of 8), the size of the head, the head; then for each other entry the length of the prefix
shared with the preceding entry and, where sizes differ, the size of its own part; then those parts.
Numbers are *vbytes*: groups of seven bits, the lowest first, the top bit set on the last. The file
ends with the number of entries, as u64. Blocks delimit themselves; the offsets beside them are
needed only to jump. Each datatype of a value dictionary begins a new block.

Because entries are front-coded, a search of the raw bytes for an id would miss most ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reclaim.errors import Corrupt

TRAILER = 8
ID_SIZE = 40

ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_RECORDS = {0: 0, 3: 4, 4: 8}
_LAST = 0x80
_SEVEN_BITS = bytes(byte & 0x7F for byte in range(256))
_LONGEST_VBYTE = 10


def find_ids(data: bytes) -> tuple[str, ...]:
    """Every run of exactly 40 lower-case hex digits in the entries, without duplicates.

    Current versions store an id as the bare digits. Stores converted from older versions hold
    strings in quotes, so a run counts anywhere in an entry: additional names only keep more layers.
    """
    ids: list[bytes] = []
    end = len(data) - TRAILER
    at = count = 0
    try:
        while at < end:
            control = data[at]
            more = control & 7
            size = data[at + 1]
            at += 2
            if size >= _LAST:
                size -= _LAST
            else:
                size, at = _vbyte(data, at - 1)
            head = at
            at += size
            shares, sizes, at = _sizes(data, at, control >> 3, more)
            length = longest = size
            for shared, own in zip(shares, sizes, strict=True):
                if shared > length:
                    raise Corrupt("an entry shares more than the entry before it has")
                length = shared + own
                if length > longest:
                    longest = length
            count += more + 1
            if longest < ID_SIZE:
                # No entry of the block is long enough for an id.
                at += sum(sizes)
                continue
            entry = data[head : head + size]
            ids += ID.findall(entry)
            for shared, own in zip(shares, sizes, strict=True):
                entry = entry[:shared] + data[at : at + own]
                at += own
                if shared + own >= ID_SIZE:
                    ids += ID.findall(entry)
    except IndexError:
        raise Corrupt("a dictionary ends inside a block") from None
    _check_end(data, at, count)
    return tuple(dict.fromkeys(map(bytes.decode, ids)))


def entries(data: bytes) -> Iterator[bytes]:
    """All entries in order. Entries before a fault are yielded before the fault is raised."""
    end = len(data) - TRAILER
    at = count = 0
    try:
        while at < end:
            control = data[at]
            size, at = _vbyte(data, at + 1)
            entry = data[at : at + size]
            at += size
            shares, sizes, at = _sizes(data, at, control >> 3, control & 7)
            if at + sum(sizes) > end:
                raise IndexError
            yield entry
            for shared, own in zip(shares, sizes, strict=True):
                if shared > len(entry):
                    raise Corrupt("an entry shares more than the entry before it has")
                entry = entry[:shared] + data[at : at + own]
                at += own
                yield entry
            count += len(sizes) + 1
    except IndexError:
        raise Corrupt("a dictionary ends inside a block") from None
    _check_end(data, at, count)


def _sizes(
    data: bytes, at: int, coding: int, more: int
) -> tuple[Sequence[int], Sequence[int], int]:
    """For the entries after the head, lengths of shared prefixes and own parts; and the end
    position.
    """
    record = _RECORDS.get(coding)
    if record == 0:
        header = data[at : at + 2 * more]
        if not header:
            if more:
                raise IndexError
            return b"", b"", at
        if min(header) >= _LAST and len(header) == 2 * more:
            # All numbers are below 128: the usual case.
            header = header.translate(_SEVEN_BITS)
            return header[::2], header[1::2], at + 2 * more
    elif record is None:
        raise Corrupt(f"a dictionary has a block of an unknown kind, {coding}")
    shares: list[int] = []
    sizes: list[int] = []
    for _ in range(more):
        shared, at = _vbyte(data, at)
        if record:
            own = record - shared
            if own < 0:
                raise Corrupt(f"an entry of {record} bytes shares {shared} with another")
        else:
            own, at = _vbyte(data, at)
        shares.append(shared)
        sizes.append(own)
    return shares, sizes, at


def _vbyte(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for group in range(_LONGEST_VBYTE):
        byte = data[at + group]
        number |= (byte & 0x7F) << (7 * group)
        if byte >= _LAST:
            return number, at + group + 1
    raise Corrupt("a dictionary has a number that does not end")


def _check_end(data: bytes, at: int, count: int) -> None:
    end = len(data) - TRAILER
    if at != end:
        raise Corrupt("a dictionary does not end where its last block ends")
    expected = int.from_bytes(data[end:], "big")
    if count != expected:
        raise Corrupt(f"a dictionary has {count} entries and says that it has {expected}")

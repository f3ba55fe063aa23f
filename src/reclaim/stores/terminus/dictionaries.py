"""Decoding of many dictionaries at once: each step reads the next block of every dictionary. See
``tfc``.

Numbers of one or two bytes are read here; servers hardly write others. A dictionary with other
contents is not plain, and left to ``tfc`` to read or refuse; so are the last few dictionaries,
which are not worth a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reclaim.errors import Corrupt
from reclaim.stores.terminus import tfc
from reclaim.stores.terminus.columns import Bytes, Flags, Numbers, at_any_byte
from reclaim.stores.terminus.tfc import ID, ID_SIZE, TRAILER

FEW = 128
"""Maximum number of dictionaries for which single reads are faster."""
PADDING = 64
"""Number of bytes required after the last dictionary: a damaged dictionary is read beyond its end.
"""

_LAST = 0x80
_MORE = 7
"""Maximum number of entries after the head of a block."""
_BETWEEN = b"\n"
_RECORDS = np.full(32, -1, np.int64)
_RECORDS[[0, 3, 4]] = 0, 4, 8


@dataclass(frozen=True, slots=True)
class Ids:
    """Which dictionaries were read, and for each id in them, possibly repeated, its dictionary."""

    plain: Flags
    owner: Numbers
    ids: pa.Array


def find_ids(joined: bytes, start: Numbers, end: Numbers) -> Ids:
    """Find the ids in the dictionaries at the given positions, like ``tfc.find_ids``."""
    data = np.frombuffer(joined, np.uint8)
    stop = end - TRAILER
    expected = at_any_byte(data, ">u8")[stop]
    plain = np.zeros(len(start), np.bool_)
    owners: list[int] = []
    all_ids: list[bytes] = []
    row, at, count = np.arange(len(start)), start, np.zeros(len(start), np.int64)
    while len(row) > FEW:
        ended = at == stop[row]
        plain[row[ended]] = count[ended] == expected[row[ended]]
        row, at, count = row[~ended], at[~ended], count[~ended]
        blocks = _Blocks.read(data, at, stop[row])
        for block, ids in blocks.ids(joined):
            owners += [int(row[block])] * len(ids)
            all_ids += ids
        going = ~blocks.odd
        row, at, count = row[going], blocks.next[going], (count + blocks.more + 1)[going]
    for number in row.tolist():
        try:
            decoded = tfc.find_ids(joined[start[number] : end[number]])
        except Corrupt:
            continue
        plain[number] = True
        owners += [number] * len(decoded)
        all_ids += map(str.encode, decoded)
    owner = np.array(owners, np.int64)
    order = np.argsort(owner, kind="stable")
    return Ids(plain, owner[order], pa.array(all_ids, pa.string()).take(pa.array(order)))


@dataclass(slots=True)
class _Blocks:
    """Current block of each of some dictionaries; where it is ``odd``, all other fields are
    invalid.
    """

    data: Bytes
    at: Numbers
    odd: Flags
    more: Numbers
    head: Numbers
    size: Numbers
    shares: Numbers
    sizes: Numbers
    longest: Numbers

    @classmethod
    def read(cls, data: Bytes, at: Numbers, stop: Numbers) -> _Blocks:
        control = data[at]
        record = _RECORDS[control >> 3]
        count = len(at)
        entries = np.zeros((count, _MORE), np.int64)
        self = cls(
            data, at + 1, record < 0, (control & 7).astype(np.int64), at, at, entries,
            entries.copy(), at,
        )  # fmt: skip
        self.size = length = self._number(np.arange(count))
        self.longest = length.copy()
        self.head = self.at
        # Nothing beyond the end is used.
        self.at = np.minimum(self.head + self.size, stop)
        self.odd |= self.head + self.size > stop
        length = length.copy()
        for entry in range(_MORE):
            rows = np.flatnonzero(self.more > entry)
            if not len(rows):
                break
            shared = self._number(rows)
            own = record[rows] - shared
            varied = record[rows] == 0
            own[varied] = self._number(rows[varied])
            self.odd[rows] |= (shared > length[rows]) | (own < 0)
            length[rows] = shared + own
            self.longest[rows] = np.maximum(self.longest[rows], length[rows])
            self.shares[rows, entry], self.sizes[rows, entry] = shared, own
        self.odd |= self.next > stop
        return self

    @property
    def next(self) -> Numbers:
        """Start of the following block."""
        return self.at + self.sizes.sum(axis=1)

    def ids(self, joined: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Ids in entries, for blocks with ids."""
        rows = np.flatnonzero(~self.odd & (self.longest >= ID_SIZE))
        columns = (self.head, self.size, self.more, self.at, self.shares, self.sizes)
        blocks = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
        for row, head, size, more, at, shares, sizes in blocks:
            entry = joined[head : head + size]
            if more:
                entries = [entry]
                for shared, own in zip(shares[:more], sizes, strict=False):
                    entry = entry[:shared] + joined[at : at + own]
                    at += own
                    entries.append(entry)
                entry = _BETWEEN.join(entries)
            if ids := ID.findall(entry):
                yield row, ids

    def _number(self, rows: Numbers) -> Numbers:
        """Read the next number, of one or two bytes, in some rows."""
        at = self.at[rows]
        first, second = self.data[at].astype(np.int64), self.data[at + 1].astype(np.int64)
        short = first >= _LAST
        self.odd[rows] |= ~short & (second < _LAST)
        self.at[rows] = at + np.where(short, 1, 2)
        return np.where(short, first - _LAST, first | (second & 0x7F) << 7)

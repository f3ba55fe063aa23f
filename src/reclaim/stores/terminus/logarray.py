"""Arrays of integers with a common width in bits.

The bits are packed into 8-byte words, most significant first. A control word holds the number of
integers and their width: u32 low part of the length, u8 width, u24 high part. It comes first in the
header of an archive, and last in a file of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.errors import Corrupt

WORD = 8
WIDEST = 64


@dataclass(frozen=True, slots=True)
class LogArray:
    """An array decoded on access. The words begin at ``start`` in ``data``."""

    data: bytes
    start: int
    length: int
    width: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.length:
            raise IndexError(index)
        first = index * self.width
        last = first + self.width
        end = (last + 7) >> 3
        value = int.from_bytes(self.data[self.start + (first >> 3) : self.start + end], "big")
        return (value >> ((end << 3) - last)) & ((1 << self.width) - 1)

    def values(self) -> list[int]:
        return [self[index] for index in range(self.length)]


def decode_first(data: bytes, at: int = 0) -> tuple[LogArray, int]:
    """Decode the array at ``at``, beginning with its control word; return it with its end."""
    control = data[at : at + WORD]
    length, width = _control(control)
    start = at + WORD
    end = start + -(-length * width // 64) * WORD
    if end > len(data):
        raise Corrupt(f"an array of {length} numbers of {width} bits ends too early")
    return LogArray(data, start, length, width), end


def _control(word: bytes) -> tuple[int, int]:
    if len(word) != WORD:
        raise Corrupt("an array ends before its control word does")
    number = int.from_bytes(word, "big")
    length = ((number & 0xFFFFFF) << 32) | (number >> 32)
    width = (number >> 24) & 0xFF
    if width > WIDEST:
        raise Corrupt(f"an array has numbers of {width} bits; {WIDEST} is the maximum")
    return length, width

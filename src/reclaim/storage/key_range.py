"""Key ranges: pieces of a listing, so several tasks can share a folder.

Keys are compared as text, character by character, the order in which object storages list them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys below the folder ``prefix`` after ``after``, up to ``until``.

    The key ``until`` belongs to the range, the key ``after`` does not, so the ranges of a folder
    meet without a gap. An empty boundary is open. Boundaries are whole keys. Keep them short, with
    only letters and digits below the folder: then storages that list folder by folder use the same
    order.
    """

    prefix: str
    after: str = ""
    until: str = ""

    def __contains__(self, key: str) -> bool:
        return key > self.after and (not self.until or key <= self.until)

    def names(self, folder: str) -> tuple[str, str] | None:
        """Return the boundaries for names below a folder; None if the whole folder is outside."""
        after = before = ""
        if self.after.startswith(folder):
            after = self.after[len(folder) :]
        elif self.after > folder:
            return None
        if self.until.startswith(folder):
            before = self.until[len(folder) :]
        if self.until and not before and self.until <= folder:
            return None
        return after, before


def spread(folder: str, alphabet: str, pieces: int) -> Iterator[KeyRange]:
    """Yield the ranges of a flat folder with random names, beginning with letters of an alphabet.

    Together they hold every key of the folder, even keys with other beginnings.
    """
    letters = sorted(set(alphabet))
    depth, combinations = 1, len(letters)
    while combinations < pieces:
        depth, combinations = depth + 1, combinations * len(letters)
    edges = [
        f"{folder}/{_word(number * combinations // pieces, letters, depth)}"
        for number in range(1, pieces)
    ]
    for after, until in zip(["", *edges], [*edges, ""], strict=True):
        yield KeyRange(folder, after, until)


def _word(number: int, letters: Sequence[str], depth: int) -> str:
    word = ""
    for _ in range(depth):
        number, at = divmod(number, len(letters))
        word = letters[at] + word
    return word


def shares(
    ranges: Iterable[KeyRange], tasks: int, *, pieces: int | None = None
) -> list[list[KeyRange]]:
    """Deal ranges out to a number of tasks.

    Adjacent ranges of a folder are merged, down to a range for each task, or to ``pieces`` ranges:
    a folder on a disk is read completely for each of its ranges.
    """
    dealt = [
        merged
        for _, folder in groupby(ranges, key=lambda keys: keys.prefix)
        for merged in _merged(list(folder), pieces or tasks)
    ]
    return [share for first in range(tasks) if (share := dealt[first::tasks])]


def _merged(ranges: Sequence[KeyRange], most: int) -> Iterator[KeyRange]:
    pieces = min(most, len(ranges))
    edges = [number * len(ranges) // pieces for number in range(pieces + 1)]
    for first, last in pairwise(edges):
        joined = ranges[first]
        for other in ranges[first + 1 : last]:
            if not joined.until or joined.until != other.after:
                yield joined
                joined = other
            else:
                joined = KeyRange(joined.prefix, joined.after, other.until)
        yield joined

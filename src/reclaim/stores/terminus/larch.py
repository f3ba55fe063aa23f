"""Archives: the files of one layer in one file.

A u64 says which files there are, the most significant bit being file 0; an array says where each
ends, counted from the end of the header; then they follow. Archives are written in place, so that
one can be cut off at any byte. It is complete when it is as long as its header says.
"""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.errors import Corrupt
from reclaim.stores.terminus.files import ID_MAPS, PARENT, REMOVED, VALUES
from reclaim.stores.terminus.logarray import WORD, LogArray, decode_first
from reclaim.stores.terminus.tfc import ID_SIZE

HEAD = 2 * WORD + 63 * WORD
"""So many bytes from the start of an archive hold its header, whatever is in it."""

Span = tuple[int, int]
"""From the first byte to the one after the last."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The header of an archive. ``size`` is how long the whole file must be."""

    presence: int
    ends: LogArray
    start: int
    size: int

    def has(self, file: int) -> bool:
        return bool(self.presence >> (63 - file) & 1)

    def span(self, file: int) -> Span:
        """Where a file lies in the archive."""
        if not self.has(file):
            raise Corrupt(f"an archive has no file {file}")
        place = (self.presence >> (63 - file)).bit_count() - 1
        start = self.ends[place - 1] if place else 0
        end = self.ends[place]
        if not start <= end <= self.size - self.start:
            raise Corrupt(f"file {file} of an archive ends before it starts, or outside it")
        return self.start + start, self.start + end

    def present(self) -> list[int]:
        return [file for file in range(64) if self.has(file)]

    @property
    def rolled_up(self) -> bool:
        """Whether it was written by a rollup: only those have id maps."""
        return self.has(ID_MAPS)


def parse_header(head: bytes) -> Archive:
    """The header at the start of ``head``, which may be all of an archive or ``HEAD`` bytes."""
    if len(head) < WORD:
        raise Corrupt("an archive ends inside its header")
    presence = int.from_bytes(head[:WORD], "big")
    ends, start = decode_first(head, WORD)
    if presence & 1 or not presence:
        raise Corrupt("the header of an archive names no files, or one that cannot be")
    if len(ends) != presence.bit_count():
        raise Corrupt(f"an archive of {presence.bit_count()} files has {len(ends)} ends of files")
    return Archive(presence, ends, start, start + ends[len(ends) - 1])


def check_complete(archive: Archive, size: int) -> None:
    """An archive of another size than its header says is cut off, or still being written."""
    if size != archive.size:
        raise Corrupt(f"an archive has {size} bytes and must have {archive.size}")


def needed(archive: Archive) -> tuple[Span, Span | None]:
    """Where the value dictionary and the parent lie: all that a layer's edges need.

    The parent is the last file, of 40 bytes; a base layer has none. That a layer without a parent
    also removes nothing is checked, for a lost parent would cut the layers below it off.
    """
    parent = archive.has(PARENT)
    if parent != archive.has(REMOVED):
        raise Corrupt("an archive has a parent and is a base layer, or neither")
    if not parent:
        return archive.span(VALUES), None
    span = archive.span(PARENT)
    if span != (archive.size - ID_SIZE, archive.size):
        raise Corrupt(f"the parent in an archive has {span[1] - span[0]} bytes, not {ID_SIZE}")
    return archive.span(VALUES), span


def split(data: bytes) -> dict[int, bytes]:
    """All files of a whole archive, by their numbers."""
    archive = parse_header(data)
    check_complete(archive, len(data))
    spans = {file: archive.span(file) for file in archive.present()}
    return {file: data[start:end] for file, (start, end) in spans.items()}

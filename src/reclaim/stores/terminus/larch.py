"""Archives: the files of a layer in a single file.

A u64 is the set of files present, with file 0 as its most significant bit; an array holds the end
of each file, relative to the end of the header; the files follow. Archives are written in place, so
an archive may be cut off at any byte. It is complete when its length matches its header.
"""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.errors import Corrupt
from reclaim.stores.terminus.files import ID_MAPS, PARENT, REMOVED, VALUES
from reclaim.stores.terminus.logarray import WORD, LogArray, decode_first
from reclaim.stores.terminus.tfc import ID_SIZE

HEAD = 2 * WORD + 63 * WORD
"""Maximum size of the header of an archive."""

Span = tuple[int, int]
"""Positions of the first byte and after the last byte."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Header of an archive. ``size`` is the required length of the whole file."""

    presence: int
    ends: LogArray
    start: int
    size: int

    def has(self, file: int) -> bool:
        return bool(self.presence >> (63 - file) & 1)

    def span(self, file: int) -> Span:
        """Position of a file in the archive."""
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
        """Whether it was written by a rollup: only rollups have id maps."""
        return self.has(ID_MAPS)


def parse_header(head: bytes) -> Archive:
    """Parse the header at the start of ``head``: a whole archive or its first ``HEAD`` bytes."""
    if len(head) < WORD:
        raise Corrupt("an archive ends inside its header")
    presence = int.from_bytes(head[:WORD], "big")
    ends, start = decode_first(head, WORD)
    if presence & 1 or not presence:
        raise Corrupt("the header of an archive names no files, or an impossible file")
    if len(ends) != presence.bit_count():
        raise Corrupt(f"an archive of {presence.bit_count()} files has {len(ends)} ends of files")
    return Archive(presence, ends, start, start + ends[len(ends) - 1])


def check_complete(archive: Archive, size: int) -> None:
    """Refuse an archive with a size other than in its header: cut off, or still being written."""
    if size != archive.size:
        raise Corrupt(f"an archive has {size} bytes and must have {archive.size}")


def needed(archive: Archive) -> tuple[Span, Span | None]:
    """Positions of the value dictionary and of the parent, which determine a layer's edges.

    The parent is the last file, of 40 bytes; a base layer has no parent. A layer without a parent
    must have no removals either: a lost parent would disconnect the layers below it.
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
    """All files of a whole archive, by number."""
    archive = parse_header(data)
    check_complete(archive, len(data))
    spans = {file: archive.span(file) for file in archive.present()}
    return {file: data[start:end] for file, (start, end) in spans.items()}

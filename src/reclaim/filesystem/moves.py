"""Checks of a move before its first change."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from reclaim.catalog import RefPath
from reclaim.filesystem.os_errors import os_error

Pair = tuple[str, str]
"""The source and the target of a move, as paths of the filesystem."""


def parse_place(path: str) -> RefPath:
    """The repository, ref and path of a stripped path; the root has none of them."""
    return RefPath.parse(path) if path else RefPath("")


def ref_of(place: RefPath) -> RefPath:
    """The repository and ref of a place."""
    return RefPath(place.repository, place.ref)


def check_not_below(pairs: Sequence[Pair]) -> None:
    """Refuse to move a file or a folder below itself."""
    for source, target in pairs:
        old, new = parse_place(source), parse_place(target)
        prefix = f"{old.path}/" if old.path else ""
        if old != new and ref_of(old) == ref_of(new) and new.path.startswith(prefix):
            raise os_error(errno.EINVAL, f"cannot be moved below itself, to {target}", source)


def checked_moves(pairs: Sequence[Pair]) -> list[Pair]:
    """The moves of files to another path; refuse moves that would overwrite each other."""
    sources = {parse_place(source) for source, _ in pairs}
    targets: set[RefPath] = set()
    moves = []
    for source, target in pairs:
        old, new = parse_place(source), parse_place(target)
        if new in targets:
            raise os_error(errno.EINVAL, "is the target of two files; nothing was moved", target)
        targets.add(new)
        if old == new:
            continue
        if new in sources:
            raise os_error(
                errno.EINVAL, "is a source and a target of the move; nothing was moved", target
            )
        moves.append((source, target))
    return moves

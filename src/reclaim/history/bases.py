"""Merge bases with the default branch, for all branches in a single pass.

The merge base of two tips is the newest snapshot reached by both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from reclaim.history.graph import Parents, reachable
from reclaim.model import History, Ref, RefKind, SnapshotId


class TouchedBase(NamedTuple):
    """Branch whose merge base is reached neither by it nor by the default branch after an edit.

    ``before`` and ``after`` are the merge bases in the two histories. A merge recognizes that
    ``after`` is not the point of divergence and handles differences with care.
    """

    branch: str
    before: SnapshotId
    after: SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """For each snapshot, the newest snapshot shared with the default branch.

    Snapshots are numbers; ``none`` means nothing in common, or no default branch.
    """

    main: bytearray
    nearest: list[int]
    none: int

    def of(self, tip: int) -> int | None:
        base = self.nearest[tip]
        return None if base == self.none else base


def find_bases(history: History, parents: Parents) -> Bases:
    defaults = [
        tip for ref, tip in zip(history.refs, history.tips, strict=True) if _is_default(ref)
    ]
    main = reachable(parents, defaults)
    return Bases(main, _find_nearest(parents, main), len(parents))


def _find_nearest(parents: Parents, main: bytearray) -> list[int]:
    """For each snapshot the newest reachable snapshot on a line, or the number after the last."""
    none = len(parents)
    nearest = list(range(none))
    for number in range(none - 1, -1, -1):
        if not main[number]:
            best = none
            for parent in parents[number]:
                if nearest[parent] < best:
                    best = nearest[parent]
            nearest[number] = best
    return nearest


def keep_bases(
    history: History,
    bases: Bases,
    branches: Iterable[Ref],
    kept: bytearray,
    doomed: Callable[[Ref, int], bool],
) -> dict[int, list[str]]:
    """Keep the merge bases of some branches, except of those to be deleted as expired.

    A kept base can save the branch pointing to it, whose own base then stays too.
    """
    wanted = set(branches)
    waiting = [
        (ref, tip)
        for ref, tip in zip(history.refs, history.tips, strict=True)
        if wanted and ref in wanted and not _is_default(ref)
    ]
    by_base: dict[int, list[str]] = {}
    while True:
        ready = [(ref, tip) for ref, tip in waiting if not doomed(ref, tip)]
        if not ready:
            return {number: sorted(names) for number, names in by_base.items()}
        waiting = [(ref, tip) for ref, tip in waiting if doomed(ref, tip)]
        for ref, tip in ready:
            base = bases.of(tip)
            if base is not None:
                by_base.setdefault(base, []).append(ref.name)
                kept[base] = 1


def touched_bases(
    history: History,
    before: Bases,
    after: Parents,
    edited: Collection[int],
    gone: Collection[Ref],
) -> tuple[TouchedBase, ...]:
    """Return branches whose merge base is no longer reached by them or the default branch.

    An edit leaves kept snapshots reachable, so kept bases are not touched. Bases behind an expired
    tip that stays are not touched either.
    """
    if not edited:
        return ()
    later = find_bases(history, after)
    # Newest snapshot of the former default branch still reached by each branch; formerly this
    # was the merge base.
    still = _find_nearest(after, before.main)
    touched = []
    for ref, tip in zip(history.refs, history.tips, strict=True):
        base, other = before.nearest[tip], later.nearest[tip]
        if before.none in (base, other) or still[tip] == base or later.main[base]:
            continue
        if ref.kind is not RefKind.BRANCH or ref.default or (gone and ref in gone):
            continue
        ids = history.snapshots[base].id, history.snapshots[other].id
        touched.append(TouchedBase(ref.name, *ids))
    return tuple(touched)


def _is_default(ref: Ref) -> bool:
    return ref.default and ref.kind is RefKind.BRANCH

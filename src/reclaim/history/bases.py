"""Merge bases with the default branch, for all branches in one pass.

The base of two tips is the newest snapshot that both reach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from reclaim.history.graph import Parents, reachable
from reclaim.model import History, Ref, RefKind, SnapshotId


class TouchedBase(NamedTuple):
    """A branch whose base with the default branch neither of them reaches after an edit.

    ``before`` and ``after`` are the base in the two histories. A merge knows that the one that it
    finds is not where they met, and treats differences with care.
    """

    branch: str
    before: SnapshotId
    after: SnapshotId


@dataclass(frozen=True, slots=True, eq=False)
class Bases:
    """For each snapshot the newest one that it has in common with the default branch.

    Numbers; ``none`` where there is nothing in common, or no default branch.
    """

    main: bytearray
    nearest: list[int]
    none: int

    def of(self, tip: int) -> int | None:
        found = self.nearest[tip]
        return None if found == self.none else found


def find_bases(history: History, parents: Parents) -> Bases:
    defaults = [
        tip for ref, tip in zip(history.refs, history.tips, strict=True) if _is_default(ref)
    ]
    main = reachable(parents, defaults)
    return Bases(main, _find_nearest(parents, main), len(parents))


def _find_nearest(parents: Parents, main: bytearray) -> list[int]:
    """For each snapshot the newest one that it reaches on a line, or one past the last."""
    none = len(parents)
    nearest = list(range(none))
    for number in range(none - 1, -1, -1):
        if not main[number]:
            found = none
            for parent in parents[number]:
                if nearest[parent] < found:
                    found = nearest[parent]
            nearest[number] = found
    return nearest


def keep_bases(
    history: History,
    bases: Bases,
    branches: Iterable[Ref],
    kept: bytearray,
    doomed: Callable[[Ref, int], bool],
) -> dict[int, list[str]]:
    """Keep the bases of some branches, except for those that would be deleted as expired.

    A base that is kept can save the branch that points at it, whose own base then stays too.
    """
    wanted = set(branches)
    waiting = [
        (ref, tip)
        for ref, tip in zip(history.refs, history.tips, strict=True)
        if wanted and ref in wanted and not _is_default(ref)
    ]
    found: dict[int, list[str]] = {}
    while True:
        ready = [(ref, tip) for ref, tip in waiting if not doomed(ref, tip)]
        if not ready:
            return {number: sorted(names) for number, names in found.items()}
        waiting = [(ref, tip) for ref, tip in waiting if doomed(ref, tip)]
        for ref, tip in ready:
            base = bases.of(tip)
            if base is not None:
                found.setdefault(base, []).append(ref.name)
                kept[base] = 1


def touched_bases(
    history: History,
    before: Bases,
    after: Parents,
    edited: Collection[int],
    gone: Collection[Ref],
) -> tuple[TouchedBase, ...]:
    """Branches whose base is not reached any more, neither by them nor by the default branch.

    What an edit keeps is reached as before, so a base that is kept is not touched. Neither is one
    that stays behind a tip that is expired itself.
    """
    if not edited:
        return ()
    later = find_bases(history, after)
    # What a branch reached of the default branch as that was; of what it reached, the newest was
    # the base.
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

"""Predictions of what the library makes of a history when it is asked to expire snapshots.

They share nothing with the library, so that one can be held to the other. In either spec a
snapshot is expired that is older than the bound and has a parent; what loses its parent hangs on
the first snapshot of its tree from then on. The specs differ in what becomes of expired tips: in
spec 2 they stay where they are in the history of others, in spec 1 they are passed over there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from reclaim.errors import Refused
from reclaim.history import Edit
from reclaim.history.graph import ids, reachable
from reclaim.model import History, Ref, RefKind, SnapshotId
from reclaim.stores.abilities import Expiration

Parents = Sequence[tuple[int, ...]]

RULES = frozenset(("older_than", "delete_expired_tags", "delete_expired_branches"))
"""The rules and flags that the library can be asked for."""


def bound(expiration: Expiration) -> datetime:
    """The instant before which a snapshot is expired."""
    cutoff = expiration.policy.default.cutoff(expiration.now)
    assert cutoff is not None
    return cutoff


def predict_edit(history: History, expiration: Expiration, *, spec: int) -> Edit:
    """The edit that the library will make of a history."""
    young = _young(history, expiration)
    if spec == 1:
        return _predict_in_files(history, young, expiration)
    return _predict_in_repo(history, young, expiration)


def leaving_repo(history: History, expiration: Expiration) -> frozenset[SnapshotId]:
    """The snapshots that the library will take out of ``repo``, reached or not."""
    stays = _staying_in_repo(history, _young(history, expiration), expiration)
    return frozenset(
        snapshot.id for snapshot, there in zip(history.snapshots, stays, strict=True) if not there
    )


def _young(history: History, expiration: Expiration) -> Sequence[bool]:
    """Whether each snapshot is young. The library asks each for its time, and nobody for what
    stands above it."""
    cutoff = bound(expiration)
    return [snapshot.written_at >= cutoff for snapshot in history.snapshots]


def _predict_in_repo(history: History, young: Sequence[bool], expiration: Expiration) -> Edit:
    """In spec 2 all snapshots are judged at once, those that nothing reaches as well."""
    stays = _staying_in_repo(history, young, expiration)
    origins = _origins(history)
    after = [
        (origins[number],) if stays[number] and not all(stays[one] for one in above) else above
        for number, above in enumerate(history.parents)
    ]
    expired = {
        ref
        for ref, tip in zip(history.refs, history.tips, strict=True)
        if history.parents[tip] and not young[tip]
    }
    return _edit(history, after, expired, expiration)


def _staying_in_repo(
    history: History, young: Sequence[bool], expiration: Expiration
) -> Sequence[bool]:
    stays = [is_young or not above for is_young, above in zip(young, history.parents, strict=True)]
    for ref, tip in zip(history.refs, history.tips, strict=True):
        if ref.default or not _is_asked(ref, expiration):
            stays[tip] = True
    return stays


def _predict_in_files(history: History, young: Sequence[bool], expiration: Expiration) -> Edit:
    """In spec 1 each ref is gone through from its tip, tags first, and one snapshot is edited."""
    after = list(history.parents)
    expired: set[Ref] = set()
    tips = dict(zip(history.refs, history.tips, strict=True))
    for ref in sorted(tips, key=lambda ref: (ref.kind is not RefKind.TAG, ref.name)):
        tip = tips[ref]
        if not young[tip]:
            # Also at the first snapshot, other than in spec 2.
            expired.add(ref)
        line = _line(after, tip)
        old = [number for number in line if not young[number]]
        if not old:
            continue
        if old[-1] != line[-1]:
            if old[-1] == tip:
                continue
            raise Refused(
                f"the first snapshot below {ref.name} is younger than some that are above it, and "
                "Icechunk's library cannot expire such a history",
                hint="nothing was changed; choose a bound that is older than all of them, or "
                "upgrade the repository to spec 2",
            )
        edited = next((number for number in reversed(line) if young[number]), tip)
        if edited != line[-1]:
            after[edited] = (line[-1],)
    return _edit(history, after, expired, expiration)


def _line(parents: Parents, tip: int) -> list[int]:
    """A snapshot and all its ancestors, which have one parent each."""
    line = [tip]
    while above := parents[line[-1]]:
        line.append(above[0])
    return line


def _origins(history: History) -> Sequence[int]:
    """The first snapshot of the tree of each."""
    origins = list(range(len(history.parents)))
    for number in reversed(range(len(origins))):
        if above := history.parents[number]:
            origins[number] = origins[above[0]]
    return origins


def _is_asked(ref: Ref, expiration: Expiration) -> bool:
    """Whether refs of a kind are to be deleted that are at expired snapshots."""
    if ref.kind is RefKind.TAG:
        return expiration.delete_expired_tags
    return expiration.delete_expired_branches


def _edit(
    history: History, after: Parents, expired: Collection[Ref], expiration: Expiration
) -> Edit:
    deleted = tuple(
        ref
        for ref in history.refs
        if ref in expired and _is_asked(ref, expiration) and not ref.default
    )
    left = [tip for ref, tip in zip(history.refs, history.tips, strict=True) if ref not in deleted]
    reached = reachable(after, left)
    return Edit(
        reparent={
            history.snapshots[number].id: ids(history, new)
            for number, new in enumerate(after)
            if new != history.parents[number]
        },
        delete_refs=deleted,
        unreachable=ids(history, (number for number, there in enumerate(reached) if not there)),
        touched_bases=(),
        expired_tips=tuple(ref for ref in history.refs if ref in expired),
        kept_bases={},
    )

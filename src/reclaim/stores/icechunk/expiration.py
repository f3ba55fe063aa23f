"""Predictions of the library's edit of a history when expiring snapshots.

They share no code with the library, so that each can be tested against the other. In both specs, a
snapshot is expired if it is older than the bound and has a parent; a snapshot losing its parent is
attached to the first snapshot of its tree. The specs differ in expired tips: spec 2 keeps them in
the history of other refs, spec 1 bypasses them there.
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
"""Rules and flags supported by the library."""


def bound(expiration: Expiration) -> datetime:
    """Instant before which snapshots expire."""
    cutoff = expiration.policy.default.cutoff(expiration.now)
    assert cutoff is not None
    return cutoff


def predict_edit(history: History, expiration: Expiration, *, spec: int) -> Edit:
    """Predict the library's edit of a history."""
    young = _young(history, expiration)
    if spec == 1:
        return _predict_in_files(history, young, expiration)
    return _predict_in_repo(history, young, expiration)


def leaving_repo(history: History, expiration: Expiration) -> frozenset[SnapshotId]:
    """Snapshots to be removed from ``repo`` by the library, reachable or not."""
    stays = _staying_in_repo(history, _young(history, expiration), expiration)
    return frozenset(
        snapshot.id
        for snapshot, is_staying in zip(history.snapshots, stays, strict=True)
        if not is_staying
    )


def _young(history: History, expiration: Expiration) -> Sequence[bool]:
    """Whether each snapshot is young. The library compares the time of each snapshot alone, not of
    its descendants.
    """
    cutoff = bound(expiration)
    return [snapshot.written_at >= cutoff for snapshot in history.snapshots]


def _predict_in_repo(history: History, young: Sequence[bool], expiration: Expiration) -> Edit:
    """In spec 2 all snapshots are judged at once, including unreachable snapshots."""
    stays = _staying_in_repo(history, young, expiration)
    origins = _origins(history)
    after = [
        (origins[number],)
        if stays[number] and not all(stays[parent] for parent in above)
        else above
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
    """In spec 1 each ref is walked from its tip, tags first, and one snapshot per ref is edited."""
    after = list(history.parents)
    expired: set[Ref] = set()
    tips = dict(zip(history.refs, history.tips, strict=True))
    for ref in sorted(tips, key=lambda ref: (ref.kind is not RefKind.TAG, ref.name)):
        tip = tips[ref]
        if not young[tip]:
            # Also at the first snapshot, unlike in spec 2.
            expired.add(ref)
        line = _line(after, tip)
        old = [number for number in line if not young[number]]
        if not old:
            continue
        if old[-1] != line[-1]:
            if old[-1] == tip:
                continue
            raise Refused(
                f"the first snapshot below {ref.name} is younger than some of its descendants, and "
                "Icechunk's library cannot expire such a history",
                hint="nothing was changed; choose a bound older than all of them, or "
                "upgrade the repository to spec 2",
            )
        edited = next((number for number in reversed(line) if young[number]), tip)
        if edited != line[-1]:
            after[edited] = (line[-1],)
    return _edit(history, after, expired, expiration)


def _line(parents: Parents, tip: int) -> list[int]:
    """A snapshot and all its ancestors, each with a single parent."""
    line = [tip]
    while above := parents[line[-1]]:
        line.append(above[0])
    return line


def _origins(history: History) -> Sequence[int]:
    """Root of the tree of each snapshot."""
    origins = list(range(len(history.parents)))
    for number in reversed(range(len(origins))):
        if above := history.parents[number]:
            origins[number] = origins[above[0]]
    return origins


def _is_asked(ref: Ref, expiration: Expiration) -> bool:
    """Whether deletion of expired refs of this kind is requested."""
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
    remaining_tips = [
        tip for ref, tip in zip(history.refs, history.tips, strict=True) if ref not in deleted
    ]
    reached = reachable(after, remaining_tips)
    return Edit(
        reparent={
            history.snapshots[number].id: ids(history, new)
            for number, new in enumerate(after)
            if new != history.parents[number]
        },
        delete_refs=deleted,
        unreachable=ids(
            history, (number for number, is_reached in enumerate(reached) if not is_reached)
        ),
        touched_bases=(),
        expired_tips=tuple(ref for ref in history.refs if ref in expired),
        kept_bases={},
    )

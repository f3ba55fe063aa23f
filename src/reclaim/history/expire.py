"""Edit of a history that removes expired snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from reclaim.history.bases import TouchedBase, find_bases, keep_bases, touched_bases
from reclaim.history.frontier import reparent
from reclaim.history.graph import ids, reachable
from reclaim.model import History, Ref, RefKind, SnapshotId


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to a history; ids, contents and times of snapshots never change.

    ``reparent`` gives new parents, all of them ancestors; its snapshots become marked.
    ``unreachable`` lists every snapshot without a ref after the edit, including those unreachable
    before. ``expired_tips`` are the refs pointing to an expired snapshot, including refs to be
    deleted. ``kept_bases`` names the branches whose merge base stays for their sake.
    """

    reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]]
    delete_refs: tuple[Ref, ...]
    unreachable: tuple[SnapshotId, ...]
    touched_bases: tuple[TouchedBase, ...]
    expired_tips: tuple[Ref, ...]
    kept_bases: Mapping[SnapshotId, tuple[str, ...]]

    @property
    def empty(self) -> bool:
        """Whether the edit changes nothing."""
        return not self.reparent and not self.delete_refs

    @property
    def marked(self) -> AbstractSet[SnapshotId]:
        return self.reparent.keys()


def expire(
    history: History,
    kept: AbstractSet[SnapshotId],
    *,
    limit: Collection[Ref] | None = None,
    delete_expired_tags: bool = False,
    delete_expired_branches: bool = False,
    deletable: Collection[Ref] | None = None,
    busy: Collection[str] = (),
    keep_bases_of: Collection[Ref] = (),
) -> Edit:
    """Remove snapshots from a history that are not kept.

    Origins are always kept. The tip of a ref is never removed: an expired tip stays with its
    ancestors unchanged, unless its ref may be deleted. The default branch and the branches in
    ``busy`` are never deleted. Nor are refs outside ``deletable``, if given, or refs whose deletion
    would leave a kept snapshot unreachable, since clocks can run backwards. ``limit`` restricts
    edits and deletions to these refs and their ancestors; kept snapshots do not depend on it.
    """
    stays = bytearray(map(kept.__contains__, [snapshot.id for snapshot in history.snapshots]))
    for number in history.origins:
        stays[number] = 1

    def deleted(ref: Ref, tip: int) -> bool:
        if stays[tip] or (deletable is not None and ref not in deletable):
            return False
        if ref.kind is RefKind.TAG:
            return delete_expired_tags
        return delete_expired_branches and not ref.default and ref.name not in busy

    tips = list(zip(history.refs, history.tips, strict=True))
    within = tips if limit is None else [(ref, tip) for ref, tip in tips if ref in limit]
    needed = _needed(history, kept, {ref for ref, tip in within if deleted(ref, tip)})

    def doomed(ref: Ref, tip: int) -> bool:
        return ref not in needed and deleted(ref, tip)

    before = find_bases(history, history.parents)
    bases = keep_bases(history, before, keep_bases_of, stays, doomed)
    gone = {ref for ref, tip in within if doomed(ref, tip)}

    editable = reachable(history.parents, [tip for _, tip in within])
    edited = reparent(history.parents, editable, stays)
    after = list(history.parents)
    for number, new in edited.items():
        after[number] = new
    left = reachable(after, [tip for ref, tip in tips if not gone or ref not in gone])
    return Edit(
        reparent={
            history.snapshots[number].id: ids(history, new)
            for number, new in sorted(edited.items())
        },
        delete_refs=tuple(ref for ref in history.refs if ref in gone) if gone else (),
        unreachable=ids(history, (number for number, reached in enumerate(left) if not reached)),
        touched_bases=touched_bases(history, before, after, edited, gone),
        expired_tips=tuple(ref for ref, tip in tips if not stays[tip]),
        kept_bases={
            history.snapshots[number].id: tuple(names) for number, names in sorted(bases.items())
        },
    )


def _needed(
    history: History, kept: AbstractSet[SnapshotId], doomed: AbstractSet[Ref]
) -> AbstractSet[Ref]:
    """Return the refs to be deleted without which a kept snapshot would be unreachable.

    An origin alone is no reason to keep a ref: an origin is kept for its descendants.
    """
    if not doomed:
        return frozenset()
    tips = list(zip(history.refs, history.tips, strict=True))
    reached = reachable(history.parents, history.tips)
    still_reached = reachable(history.parents, [tip for ref, tip in tips if ref not in doomed])
    lost = [
        number
        for number, parents in enumerate(history.parents)
        if reached[number] > still_reached[number]
        and parents
        and history.snapshots[number].id in kept
    ]
    if not lost:
        return frozenset()
    with_lost = bytearray(len(history.parents))
    for number in lost:
        with_lost[number] = 1
    for number in reversed(range(lost[-1])):
        if any(with_lost[parent] for parent in history.parents[number]):
            with_lost[number] = 1
    return {ref for ref, tip in tips if ref in doomed and with_lost[tip]}

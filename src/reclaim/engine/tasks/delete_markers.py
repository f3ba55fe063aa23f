"""Delete markers: setting objects aside in a bucket that keeps versions, without copying them.

A run knows its markers, and the versions under them, by their ids, which its journal has. It covers
only what is current, takes off only its own markers, and deletes only the versions under those:
never one that is current.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reclaim.engine.tasks.deleting import DELETED, FAILED, MISSING, RESTORED, Taken, Target
from reclaim.engine.tasks.notes import COVERING, RETURNED, Noted, write_note
from reclaim.engine.tasks.parts import Place
from reclaim.engine.tasks.quarantine import QUARANTINED, UNTOUCHED, each, look
from reclaim.errors import Conflict, VersioningOff
from reclaim.storage import Storage
from reclaim.storage.buckets import ENABLED, NULL_VERSION, Bucket, Version, open_bucket
from reclaim.storage.pace import InTime, TimeOver, check_time

UNKNOWN, NONE = "?", "-"
"""Instead of a marker's id: the journal that had it was lost; the bucket said there is none."""


SHOWN = 5
"""How many objects a message names."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The version that a run's marker covers."""

    marker: str
    version: str
    etag: str
    copies: tuple[str, ...] = ()
    """The versions by which undos brought it back."""

    @property
    def identity(self) -> str:
        return " ".join((self.marker, self.version, self.etag, *self.copies))

    @classmethod
    def parse(cls, identity: str) -> Covered | None:
        """The version with that identity; None if there is none."""
        if not identity:
            return None
        marker, version, etag, *copies = identity.split(" ")
        return cls(marker, version, etag, tuple(copies))


@dataclass(frozen=True, slots=True)
class Mark:
    """Covers what is current with delete markers.

    Which versions are about to be covered is written below ``notes`` first: if the journal is lost,
    that tells which markers must be this run's. ``undo_begun`` is as for ``SetAside``.
    """

    notes: str
    undo_begun: str

    @property
    def outcome(self) -> str:
        return QUARANTINED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        bucket = open_bucket(storage.url)
        current = each(storage, targets, lambda target: bucket.current(target.address), in_time)
        going = {
            target.address: version
            for target, version in zip(targets, current, strict=True)
            if version is not None and _check_size(version, target)
        }
        if not going:
            return [Taken(MISSING)] * len(targets)
        sizes = {target.address: target.size for target in targets}
        noted = [
            Noted(address, sizes[address], COVERING, _covering(version).identity)
            for address, version in going.items()
        ]
        write_note(storage, self.notes, noted)
        # Page by page: a bucket can be suspended at any moment.
        _check_versioning(bucket)
        check_time(in_time)
        markers, failed = bucket.cover(list(going))
        _check_markers(markers, going)
        if not in_time():
            # It was stopped for so long that an undo may have looked before.
            if look(storage, self.undo_begun) is not None:
                bucket.uncover(markers)
            raise TimeOver

        def taken(target: Target) -> Taken:
            version = going.get(target.address)
            if version is None:
                return Taken(MISSING)
            marker = markers.get(target.address, NONE)
            identity = Covered(marker, version.id, version.etag).identity
            if target.address in failed:
                return Taken(FAILED, identity, failed[target.address])
            return Taken(QUARANTINED, identity)

        return [taken(target) for target in targets]

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]


@dataclass(frozen=True, slots=True)
class Uncovering:
    """An object whose marker is to be taken off, with its versions; or what became of it."""

    target: Target
    taken: Taken | None
    covered: Covered
    versions: Sequence[Version] = ()


@dataclass(frozen=True, slots=True)
class Unmark:
    """Takes a run's markers off again.

    What was covered is copied over its marker first, so that it counts as written now and the next
    run spares it. The copy is noted by its version below ``notes`` before the covered version goes:
    its etag need not be that of what was covered. What somebody wrote there since is left.
    """

    notes: Place | None = None

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        bucket = open_bucket(storage.url)
        copied = each(
            storage, targets, lambda target: self._bring_up(bucket, target, in_time), in_time
        )
        if self.notes is not None:
            noted = [found for one in copied if (found := self._returned(one))]
            write_note(storage, self.notes.prefix, noted)
        return each(storage, copied, lambda one: self._uncover(bucket, one), in_time)

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]

    def _bring_up(self, bucket: Bucket, target: Target, in_time: InTime) -> Uncovering:
        """Make what was covered, or a copy of it, the current version."""
        covered = Covered.parse(target.identity)
        if covered is None:
            return Uncovering(target, Taken(UNTOUCHED), Covered(NONE, "", ""))
        versions = bucket.versions_of(target.address)
        covered = _known(covered, versions)
        kept = _find(versions, covered)
        if kept is not None and kept.latest:
            # It was about to be covered and never was, or somebody took the marker off.
            return Uncovering(target, Taken(UNTOUCHED), covered)
        if not versions or (kept is None and versions[0].marker):
            raise Conflict(f"the version of {target.address} that was covered is gone")
        if kept is not None and versions[0].marker:
            if _newest(versions) != covered.version:
                raise Conflict(
                    f"{target.address} was written and deleted again since; its versions were left"
                )
            check_time(in_time)
            copy = bucket.renew(kept)
            if copy is not None:
                covered = replace(covered, copies=(*covered.copies, copy))
            versions = bucket.versions_of(target.address)
        own = versions[0].id in covered.copies and not versions[0].marker
        if not own and (kept is None or not _same(bucket, versions[0], kept)):
            _check_etag(versions[0], covered, target, is_left=kept is not None)
        return Uncovering(target, None, covered, versions)

    def _returned(self, one: Uncovering) -> Noted | None:
        """The note of a copy; None if there is none, or if it can be told by its etag."""
        if one.taken or one.versions[0].etag == one.covered.etag:
            return None
        copies = dict.fromkeys((*one.covered.copies, one.versions[0].id))
        covered = replace(one.covered, copies=tuple(copies))
        return Noted(one.target.address, one.target.size, RETURNED, covered.identity)

    def _uncover(self, bucket: Bucket, one: Uncovering) -> Taken:
        """Delete the marker and the covered version, of which a copy is current.

        The marker first: as long as the version is there, it tells which marker was on it.
        """
        if one.taken:
            return one.taken
        older = one.versions[1:]
        for old in older:
            if old.marker and old.id == one.covered.marker:
                bucket.delete([old])
        if (kept := _find(older, one.covered)) is not None:
            bucket.delete([kept])
        return Taken(RESTORED)


@dataclass(frozen=True, slots=True)
class Expunge:
    """Deletes for good what a run's marker covers, and the marker. What is current stays."""

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        return each(
            storage, targets, lambda target: self.take_one(storage, target, in_time), in_time
        )

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        bucket, covered = open_bucket(storage.url), Covered.parse(target.identity)
        if covered is None or covered.marker == NONE:
            # A marker that is there nevertheless may be somebody else's.
            return Taken(MISSING)
        versions = bucket.versions_of(target.address)
        covered = _known(covered, versions)
        kept = _find(versions, covered)
        written_over = kept is None and covered.version in [one.id for one in versions]
        if written_over or (kept is not None and kept.latest):
            # Somebody took the marker off, or wrote anew: it is not the run's any more.
            return Taken(UNTOUCHED)
        if covered.marker == UNKNOWN:
            # It was about to be covered; whether it was, nothing tells for certain.
            return Taken(MISSING)
        check_time(in_time)
        _drop(bucket, versions, covered)
        return Taken(MISSING if kept is None else DELETED)


def _covering(version: Version) -> Covered:
    """A version that is about to be covered, by a marker that has no id yet."""
    return Covered(UNKNOWN, version.id, version.etag)


def _check_versioning(bucket: Bucket) -> None:
    if (status := bucket.versioning()) != ENABLED:
        raise VersioningOff(
            f"the bucket {bucket.name} keeps no versions any more ({status or 'off'}), and a "
            "delete marker would lose what it covers",
            hint="switch its versioning on again, then apply the plan again, or undo the run",
        )


def _check_markers(markers: Mapping[str, str], going: Mapping[str, Version]) -> None:
    """Stop when a bucket was suspended meanwhile: a marker is in the place of the null version."""
    covered = [address for address, marker in markers.items() if marker == NULL_VERSION]
    if not covered:
        return
    lost = [address for address in covered if going[address].id == NULL_VERSION]
    named = ", ".join(lost[:SHOWN]) + (", ..." if len(lost) > SHOWN else "")
    raise VersioningOff(
        f"the versioning of the bucket was suspended while objects were covered; {len(lost)} of "
        f"them had no version of their own and are lost{': ' + named if lost else ''}",
        hint="switch the versioning on again and undo the run, which brings back all others",
        lost=len(lost),
    )


def _check_size(version: Version, target: Target) -> bool:
    if version.size != target.size:
        raise Conflict(
            f"{target.address} has {version.size} bytes now instead of {target.size}; it was left"
        )
    return True


def _find(versions: Sequence[Version], covered: Covered) -> Version | None:
    """The version that was covered.

    Its id alone does not tell: while a bucket keeps no versions, what is written has the id
    ``null`` and takes the place of the version that has it.
    """
    named = (one for one in versions if one.id == covered.version and not one.marker)
    return next((one for one in named if one.etag == covered.etag), None)


def _known(covered: Covered, versions: Sequence[Version]) -> Covered:
    """The same with its marker, if that was not known: the one on the version, if it is alone."""
    markers = [one.id for one in versions if one.marker]
    below = next((one.id for one in versions if not one.marker and not one.latest), None)
    if covered.marker in (UNKNOWN, NONE) and len(markers) == 1 and below == covered.version:
        return replace(covered, marker=markers[0])
    return covered


def _newest(versions: Sequence[Version]) -> str | None:
    """The newest version with bytes, whatever markers are on it."""
    return next((one.id for one in versions if not one.marker), None)


def _same(bucket: Bucket, latest: Version, kept: Version) -> bool:
    """Whether the current version is the covered one, or a copy of it.

    The etag of what was uploaded or copied in parts tells nothing of its bytes.
    """
    if latest.marker or latest.size != kept.size:
        return False
    return latest.id == kept.id or latest.etag == kept.etag or bucket.same(latest, kept)


def _check_etag(latest: Version, covered: Covered, target: Target, *, is_left: bool) -> None:
    """Refuse what is not a copy of a covered version that is gone, or of one that was left."""
    if not latest.marker and latest.size == target.size and latest.etag == covered.etag:
        return
    if is_left:
        raise Conflict(f"{target.address} holds other bytes now; what was covered was left")
    raise Conflict(
        f"{target.address} holds other bytes now, or a copy of what was covered that no note of an "
        "undo tells of; the covered version itself is gone"
    )


def _drop(bucket: Bucket, versions: Sequence[Version], covered: Covered) -> None:
    """Delete a covered version and its marker; neither if it is current, and the marker only if
    nothing else would come up from under it.

    A marker that is current goes last: until then the version would come up. Any other goes first,
    because whoever repeats this may know it only by the version under it.
    """
    kept = _find(versions, covered)
    at = next(
        (at for at, one in enumerate(versions) if one.marker and one.id == covered.marker), None
    )
    going = [] if kept is None or kept.latest else [kept]
    if at is not None and not versions[at].latest:
        going.insert(0, versions[at])
    elif at is not None:
        below = [one for one in versions[at + 1 :] if one.id != covered.version and not one.marker]
        going += [] if below else [versions[at]]
    for version in going:
        bucket.delete([version])

"""Delete markers: quarantine objects in a versioned bucket without copying them.

A run knows its markers and the versions below them by their ids, recorded in its journal. It covers
only current versions, removes only its own markers, and deletes only versions below its markers:
never a current version.
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
"""Placeholders for a marker's id: unknown because the journal was lost; none according to the
bucket."""


SHOWN = 5
"""Objects named in a message."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The version covered by a run's marker."""

    marker: str
    version: str
    etag: str
    copies: tuple[str, ...] = ()
    """The versions with which undos restored it."""

    @property
    def identity(self) -> str:
        return " ".join((self.marker, self.version, self.etag, *self.copies))

    @classmethod
    def parse(cls, identity: str) -> Covered | None:
        """Return the version with an identity; None if there is none."""
        if not identity:
            return None
        marker, version, etag, *copies = identity.split(" ")
        return cls(marker, version, etag, tuple(copies))


@dataclass(frozen=True, slots=True)
class CoverWithMarkers:
    """Covers current versions with delete markers.

    Before covering versions, it notes them below ``notes``: if the journal is lost, the notes
    identify the run's markers. ``undo_begun`` is as for ``ToQuarantine``.
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
        # Page by page: versioning can be suspended at any moment.
        _check_versioning(bucket)
        check_time(in_time)
        markers, failed = bucket.cover(list(going))
        _check_markers(markers, going)
        if not in_time():
            # The task was stopped for so long that an undo may have looked before.
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
    """An object whose marker is to be removed, with its versions; or its outcome so far."""

    target: Target
    taken: Taken | None
    covered: Covered
    versions: Sequence[Version] = ()


@dataclass(frozen=True, slots=True)
class RemoveMarkers:
    """Removes a run's markers.

    First the covered version is copied over its marker, so it counts as written now and the next
    run spares it. The copy is noted by its version below ``notes`` before the covered version is
    deleted: its etag may differ. Objects written there since are left alone.
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
            noted = [note for item in copied if (note := self._returned(item))]
            write_note(storage, self.notes.prefix, noted)
        return each(storage, copied, lambda item: self._uncover(bucket, item), in_time)

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]

    def _bring_up(self, bucket: Bucket, target: Target, in_time: InTime) -> Uncovering:
        """Make the covered version, or a copy of it, current."""
        covered = Covered.parse(target.identity)
        if covered is None:
            return Uncovering(target, Taken(UNTOUCHED), Covered(NONE, "", ""))
        versions = bucket.versions_of(target.address)
        covered = _known(covered, versions)
        kept = _find(versions, covered)
        if kept is not None and kept.latest:
            # It was noted but never covered, or somebody removed the marker.
            return Uncovering(target, Taken(UNTOUCHED), covered)
        if not versions or (kept is None and versions[0].marker):
            raise Conflict(f"the covered version of {target.address} is gone")
        if kept is not None and versions[0].marker:
            if _newest(versions) != covered.version:
                raise Conflict(
                    f"{target.address} was written and deleted again; its versions were left"
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

    def _returned(self, item: Uncovering) -> Noted | None:
        """Return the note of a copy; None if there is no copy, or if its etag identifies it."""
        if item.taken or item.versions[0].etag == item.covered.etag:
            return None
        copies = dict.fromkeys((*item.covered.copies, item.versions[0].id))
        covered = replace(item.covered, copies=tuple(copies))
        return Noted(item.target.address, item.target.size, RETURNED, covered.identity)

    def _uncover(self, bucket: Bucket, item: Uncovering) -> Taken:
        """Delete the marker and the covered version, after a copy is current.

        The marker goes first: as long as the version exists, it identifies its marker.
        """
        if item.taken:
            return item.taken
        older = item.versions[1:]
        for old in older:
            if old.marker and old.id == item.covered.marker:
                bucket.delete([old])
        if (kept := _find(older, item.covered)) is not None:
            bucket.delete([kept])
        return Taken(RESTORED)


@dataclass(frozen=True, slots=True)
class PurgeCovered:
    """Permanently deletes the version covered by a run's marker, and the marker. The current
    version stays."""

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
            # A marker there may belong to somebody else.
            return Taken(MISSING)
        versions = bucket.versions_of(target.address)
        covered = _known(covered, versions)
        kept = _find(versions, covered)
        written_over = kept is None and covered.version in [version.id for version in versions]
        if written_over or (kept is not None and kept.latest):
            # Somebody removed the marker or wrote again: the object is no longer the run's.
            return Taken(UNTOUCHED)
        if covered.marker == UNKNOWN:
            # It was noted, but whether it was covered is unknown.
            return Taken(MISSING)
        check_time(in_time)
        _drop(bucket, versions, covered)
        return Taken(MISSING if kept is None else DELETED)


def _covering(version: Version) -> Covered:
    """Return a version about to be covered, by a marker without an id yet."""
    return Covered(UNKNOWN, version.id, version.etag)


def _check_versioning(bucket: Bucket) -> None:
    if (status := bucket.versioning()) != ENABLED:
        raise VersioningOff(
            f"versioning of the bucket {bucket.name} is {status or 'off'}; a delete marker would "
            "lose the object below it",
            hint="enable versioning again, then repeat the apply or undo the run",
        )


def _check_markers(markers: Mapping[str, str], going: Mapping[str, Version]) -> None:
    """Stop if versioning was suspended meanwhile: a marker replaced the null version."""
    covered = [address for address, marker in markers.items() if marker == NULL_VERSION]
    if not covered:
        return
    lost = [address for address in covered if going[address].id == NULL_VERSION]
    named = ", ".join(lost[:SHOWN]) + (", ..." if len(lost) > SHOWN else "")
    raise VersioningOff(
        f"the versioning of the bucket was suspended while objects were covered; {len(lost)} of "
        f"them had no version of their own and are lost{': ' + named if lost else ''}",
        hint="enable versioning again and undo the run, which restores all other objects",
        lost=len(lost),
    )


def _check_size(version: Version, target: Target) -> bool:
    if version.size != target.size:
        raise Conflict(
            f"{target.address} has {version.size} bytes instead of {target.size}; it was left"
        )
    return True


def _find(versions: Sequence[Version], covered: Covered) -> Version | None:
    """Return the covered version.

    Its id alone is not enough: while versioning is suspended, every write has the id ``null`` and
    replaces the version with this id.
    """
    named = (
        version for version in versions if version.id == covered.version and not version.marker
    )
    return next((version for version in named if version.etag == covered.etag), None)


def _known(covered: Covered, versions: Sequence[Version]) -> Covered:
    """Return the same with its marker, if unknown so far: the marker on the version, if it is
    alone."""
    markers = [version.id for version in versions if version.marker]
    below = next(
        (version.id for version in versions if not version.marker and not version.latest), None
    )
    if covered.marker in (UNKNOWN, NONE) and len(markers) == 1 and below == covered.version:
        return replace(covered, marker=markers[0])
    return covered


def _newest(versions: Sequence[Version]) -> str | None:
    """Return the newest version with bytes, whatever its markers."""
    return next((version.id for version in versions if not version.marker), None)


def _same(bucket: Bucket, latest: Version, kept: Version) -> bool:
    """Return whether the current version is the covered version, or a copy of it.

    The etag of an object uploaded or copied in parts does not identify its bytes.
    """
    if latest.marker or latest.size != kept.size:
        return False
    return latest.id == kept.id or latest.etag == kept.etag or bucket.same(latest, kept)


def _check_etag(latest: Version, covered: Covered, target: Target, *, is_left: bool) -> None:
    """Refuse a version that is not a copy of the covered version, deleted or left in place."""
    if not latest.marker and latest.size == target.size and latest.etag == covered.etag:
        return
    if is_left:
        raise Conflict(f"{target.address} holds other bytes now; the covered version was left")
    raise Conflict(
        f"{target.address} holds other bytes now, or a copy in no note of an undo; "
        "the covered version itself is gone"
    )


def _drop(bucket: Bucket, versions: Sequence[Version], covered: Covered) -> None:
    """Delete a covered version and its marker; neither if it is current, and the marker only if no
    other version would become current.

    A current marker goes last: until then the version would become current. Any other marker goes
    first, because a repeated call may know it only by the version below it.
    """
    kept = _find(versions, covered)
    at = next(
        (
            at
            for at, version in enumerate(versions)
            if version.marker and version.id == covered.marker
        ),
        None,
    )
    going = [] if kept is None or kept.latest else [kept]
    if at is not None and not versions[at].latest:
        going.insert(0, versions[at])
    elif at is not None:
        below = [
            version
            for version in versions[at + 1 :]
            if version.id != covered.version and not version.marker
        ]
        going += [] if below else [versions[at]]
    for version in going:
        bucket.delete([version])

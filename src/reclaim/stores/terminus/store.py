"""A TerminusDB store in a folder, seen by the collector.

The order is that of the algorithm: note the time, list the layers, read the labels, read the
leases, find what they reach, compare the time. A server takes no part in it: what it is about to
label is protected by its age alone, which is why layers are set aside before they are deleted.
"""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reclaim.clock import Clock, SystemClock
from reclaim.errors import Corrupt, Gone, InvalidInput, NotFound, OutOfTime, Refused
from reclaim.model import Lease, Ref, RefKind, Run, RunState, Snapshot, SnapshotId
from reclaim.storage import ObjectStorage, Storage, normalize, translated
from reclaim.stores.base import HeldLock, Margins, Observation, Reader, Restored
from reclaim.stores.beside import lock as locking
from reclaim.stores.beside.condemned import Condemnation, CondemnedLists
from reclaim.stores.beside.leases import LENGTH, HeldLease, Leases
from reclaim.stores.beside.records import Records
from reclaim.stores.terminus import graph, labels, version
from reclaim.stores.terminus.addresses import ARCHIVE, OURS, ROLLUP, layer_of, stem
from reclaim.stores.terminus.format import LAYER, TerminusFormat, read_layer, to_layer
from reclaim.stores.terminus.garbage import classify
from reclaim.stores.terminus.labels import Label
from reclaim.stores.terminus.layer import Layer

BUDGET = timedelta(minutes=15)
"""From the note of the time to the end of the mark; leases are valid for longer than that."""

PROMISE = (
    "Labels and leases were read after the layers were listed. A running server takes no leases: "
    "what it has in memory, or is about to label, is protected by the margin alone."
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """The objects of one layer: the one to read, and the time of the latest change."""

    address: str
    changed: datetime


@dataclass(frozen=True, slots=True)
class _Marked:
    """What was found, and what the roots reach of it."""

    layers: Mapping[SnapshotId, Layer]
    broken: Mapping[SnapshotId, str]
    reached: graph.Reached


class TerminusStore:
    """One store."""

    kind = "terminus"
    noun = "layer"
    exact = False
    careful = True
    deleted = False
    promise = PROMISE

    def __init__(
        self, folder: Path, *, clock: Clock | None = None, storage: Storage | None = None
    ) -> None:
        found = folder.expanduser().resolve()
        if not found.is_dir():
            raise NotFound(f"there is no folder {folder}", hint="name the folder of the store")
        if found.parent == found:
            raise InvalidInput("the root of a disk cannot be a store", hint="name its folder")
        self.folder = found
        self.name = found.name
        self.uid = normalize(str(found))
        self.clock: Clock = clock or SystemClock()
        self.format = TerminusFormat(normalize(str(found.parent)), found.name)
        inner = storage or ObjectStorage.open(self.format.root)
        self.storage: Storage = self.format.view(inner)
        ours = f"{self.format.prefix}{OURS}/"
        self._condemned = CondemnedLists(inner, f"{ours}condemned/")
        self._leases = Leases(inner, f"{ours}leases/", self.clock, self._condemned)
        self._records = Records(self.storage, f"{ours}runs/")
        self._locks = f"{ours}lock/"
        self._inner = inner
        self._run: str | None = None
        self._known: dict[tuple[str, datetime], Layer | str] = {}
        self._last: _Marked | None = None

    def check(self) -> None:
        self._roots()

    # Observing

    def observe(
        self,
        destination: Storage,  # noqa: ARG002
        prefix: str,  # noqa: ARG002
        *,
        reader: Reader,
        margin: timedelta,
        settled: bool = False,  # noqa: ARG002
    ) -> Observation:
        started = self.clock.now()
        listed = self._list()
        named = self._roots()
        read_at = self.clock.now()
        leases = self._leases.valid(read_at)
        layers, broken = self._read(listed, reader)
        young = {found for found, one in listed.items() if one.changed >= started - margin}
        marked = self._mark(layers, broken, named, leases, young)
        if self.clock.now() - started > BUDGET:
            raise OutOfTime(
                f"finding what is live took longer than {BUDGET}; leases may have changed since",
                hint="nothing was changed; run it again, with more executors if it repeats",
            )
        self._last = marked
        states = {
            found: state.value
            for run_id, state in self._condemned.each()
            for found in self._condemned.of(run_id, state)
            if state != Condemnation.QUARANTINED
        }
        final = {found for found, state in states.items() if state == Condemnation.CONDEMNED}
        # A young one that cannot be read is being written just now, and nobody's business.
        judged = {
            found: one for found, one in listed.items() if not (found in broken and found in young)
        }
        dead = [found for found in judged if found not in marked.reached]
        why = {found: str(kind) for found, kind in classify(layers, dead).items()}
        return Observation(
            refs=tuple(
                Ref(label.name, RefKind.LABEL, label.layer) for label in named if label.layer
            ),
            snapshots=tuple(
                Snapshot(found, _parents(layers.get(found)), one.changed)
                for found, one in judged.items()
                if found in marked.reached or found not in final
            ),
            leases=leases,
            busy=frozenset(),
            tops={found: (one.address, LAYER) for found, one in judged.items()},
            marked={found: state for found, state in states.items() if found in judged},
            closed=frozenset(),
            open=frozenset(),
            held=(),
            held_count=0,
            read_at=read_at,
            reached=frozenset(marked.reached.steps),
            why=why,
        )

    def _list(self) -> dict[SnapshotId, _Listed]:
        """Every layer that is there, in either format."""
        found: dict[SnapshotId, _Listed] = {}
        for shard in self.format.view(self.storage).shards():
            for one in self.storage.list(shard):
                layer = layer_of(one.address)
                if layer is None:
                    continue
                before = found.get(layer)
                changed = max(before.changed, one.last_modified) if before else one.last_modified
                is_rollup = one.address.endswith(ROLLUP)
                address = before.address if before and (before.address and is_rollup) else ""
                if not is_rollup:
                    keep = before is not None and before.address.endswith(ARCHIVE)
                    address = before.address if before and keep else one.address
                found[layer] = _Listed(address, changed)
        # A rollup file without a layer is no layer.
        return {layer: one for layer, one in found.items() if one.address}

    def _read(
        self, listed: Mapping[SnapshotId, _Listed], reader: Reader
    ) -> tuple[dict[SnapshotId, Layer], dict[SnapshotId, str]]:
        """The layers, and those that cannot be read; each is read once, for none ever changes."""
        new = [
            one.address for one in listed.values() if (one.address, one.changed) not in self._known
        ]
        told = {row["address"]: row for row in reader.snapshots(self.format, new).to_pylist()}
        if len(told) != len(set(new)):
            raise Corrupt(f"{len(set(new))} layers were to be read and {len(told)} were")
        layers: dict[SnapshotId, Layer] = {}
        broken: dict[SnapshotId, str] = {}
        for layer, one in listed.items():
            key = one.address, one.changed
            if key not in self._known:
                row = told[one.address]
                self._known[key] = to_layer(row) if row["fault"] is None else row["fault"]
            found = self._known[key]
            if isinstance(found, Layer):
                layers[layer] = found
            else:
                broken[layer] = found
        return layers, broken

    def _mark(
        self,
        layers: Mapping[SnapshotId, Layer],
        broken: Mapping[SnapshotId, str],
        named: Sequence[Label],
        leases: Sequence[Lease],
        young: Collection[SnapshotId],
    ) -> _Marked:
        roots: dict[SnapshotId, str] = {}
        for one in sorted(young):
            if one in layers:
                roots[one] = "younger than the margin"
        for lease in leases:
            roots[lease.snapshot] = f"the lease {lease.id} of {lease.holder}"
        for label in named:
            if label.layer is not None:
                roots[label.layer] = f"the label {label.name}"
        try:
            return _Marked(layers, broken, graph.reach(layers, roots, broken=broken))
        except Corrupt as error:
            aside = self._aside_of(SnapshotId(str(error.details.get("layer", ""))))
            if aside is None:
                raise
            raise Corrupt(
                error.message,
                hint=f"run {aside} has set it aside; bring it back with `reclaim undo {aside} "
                f"--store terminus:{self.folder}`",
                **error.details,
            ) from error

    def _aside_of(self, layer: SnapshotId) -> str | None:
        for run_id, state in self._condemned.each():
            if state == Condemnation.QUARANTINED and layer in self._condemned.of(run_id, state):
                return run_id
        return None

    def _roots(self) -> Sequence[Label]:
        """The labels, each read under its lock. Without any, they may live on another host."""
        path = self.folder / version.FILE
        server = version.check_version(path.read_bytes() if path.exists() else None)
        with translated("list", str(self.folder)):
            files = sorted(self.folder.glob("*" + labels.SUFFIX))
        found = [labels.parse_label(file.name, _read_locked(file)) for file in files]
        if not found:
            raise Refused(
                f"{self.folder} has no labels",
                hint="labels may live on another host; without them everything looks dead",
            )
        if server and (missing := labels.missing_system(found)):
            raise Refused(
                f"the label {missing[0]} of the server itself is missing or empty",
                hint="labels may live on another host; without them what they keep looks dead",
            )
        return found

    # Condemning

    def lock(self, run_id: str) -> AbstractContextManager[HeldLock]:
        self._run = run_id
        return locking.hold(self._inner, self._locks, self.clock, run_id)

    def begin(self, run_id: str) -> None:
        self._run = run_id
        self.abandon()

    def abandon(self) -> None:
        for run_id, state in self._condemned.each():
            if state == Condemnation.PROVISIONAL:
                self._condemned.write(run_id, state, {})

    def close_overdue(self) -> None:
        pass

    def rewrite(
        self,
        run_id: str,  # noqa: ARG002
        reparent: Mapping[SnapshotId, Any],  # noqa: ARG002
        delete_refs: Sequence[Ref],  # noqa: ARG002
    ) -> None:
        raise Refused("the history of a TerminusDB store is its own", hint="use its own tools")

    def mark(self, rules: Mapping[SnapshotId, str]) -> None:
        run = self._running()
        named = {label.layer for label in self._roots()}
        named |= {lease.snapshot for lease in self._leases.valid(self.clock.now())}
        listed = self._condemned.of(run, Condemnation.PROVISIONAL)
        listed |= {found: rule for found, rule in rules.items() if found not in named}
        self._condemned.write(run, Condemnation.PROVISIONAL, listed)

    def release(self, ids: Collection[SnapshotId]) -> None:
        reached = self._last.reached.steps.keys() if self._last else frozenset[SnapshotId]()
        for run_id, state in self._condemned.each():
            if state == Condemnation.QUARANTINED:
                continue
            freed = set(ids) if state == Condemnation.PROVISIONAL else set(ids) & reached
            listed = self._condemned.of(run_id, state)
            if freed & listed.keys():
                rest = {found: rule for found, rule in listed.items() if found not in freed}
                self._condemned.write(run_id, state, rest)

    def promote(self) -> int:
        run = self._running()
        marked = self._condemned.of(run, Condemnation.PROVISIONAL)
        before = self._condemned.of(run, Condemnation.CONDEMNED)
        if marked:
            self._condemned.write(run, Condemnation.CONDEMNED, before | marked)
            self._condemned.write(run, Condemnation.PROVISIONAL, {})
        return len(marked)

    def collect(self, ids: Collection[SnapshotId]) -> int:
        return len(self._take(ids))

    def _take(self, ids: Collection[SnapshotId]) -> dict[SnapshotId, str]:
        """Take ids off the lists of what is condemned."""
        taken: dict[SnapshotId, str] = {}
        for run_id, state in self._condemned.each():
            if state == Condemnation.CONDEMNED:
                listed = self._condemned.of(run_id, state)
                gone = {found: rule for found, rule in listed.items() if found in set(ids)}
                if gone:
                    taken |= gone
                    rest = {found: rule for found, rule in listed.items() if found not in gone}
                    self._condemned.write(run_id, state, rest)
        return taken

    def _running(self) -> str:
        if self._run is None:
            raise Refused("no run holds the lock of the store")
        return self._run

    # Order, and the way back

    def in_order(self, addresses: Sequence[str]) -> Sequence[str]:
        """Children before parents, and what is loaded through another before that."""
        layers = self._last.layers if self._last else {}
        by_layer: dict[SnapshotId | None, list[str]] = {}
        for address in addresses:
            by_layer.setdefault(layer_of(address), []).append(address)
        order = graph.deletion_order(layers, [found for found in by_layer if found is not None])
        return [*by_layer.get(None, ()), *(one for found in order for one in by_layer[found])]

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        run = self._running()
        before = self._condemned.of(run, Condemnation.QUARANTINED)
        mine = self._condemned.of(run, Condemnation.CONDEMNED)
        others = {
            found: rule
            for _, listed in self._condemned.read().items()
            for found, rule in listed.items()
        }
        taken = {found: mine.get(found) or others.get(found, "") for found in ids}
        # Listed as set aside before it is off the other list: it is never on none.
        self._condemned.write(run, Condemnation.QUARANTINED, before | taken)
        self._take(ids)
        return len(taken.keys() - before.keys())

    def taken(self, run_id: str) -> Mapping[SnapshotId, tuple[str, str] | None]:
        return dict.fromkeys(self._listed_by(run_id))

    def _listed_by(self, run_id: str) -> dict[SnapshotId, str]:
        return {
            found: rule
            for state in (Condemnation.CONDEMNED, Condemnation.QUARANTINED)
            for found, rule in self._condemned.of(run_id, state).items()
        }

    def restore(self, run_id: str, whole: Collection[SnapshotId]) -> Restored:
        """Take the layers off the lists again; one that cannot be loaded is named."""
        listed = self._list()
        left = []
        back = 0
        for found in sorted(self._listed_by(run_id)):
            fault = self._fault(found, listed)
            if found in whole and fault is None:
                back += 1
            else:
                left.append(f"layer {found}: {fault}")
        for state in (Condemnation.CONDEMNED, Condemnation.QUARANTINED):
            self._condemned.write(run_id, state, {})
        run = self.find_run(run_id)
        self.finish(run_id, RunState.UNDONE, run.summary if run else {})
        return Restored(back, left)

    def _fault(self, layer: SnapshotId, listed: Mapping[SnapshotId, _Listed]) -> str | None:
        """Why a layer cannot be loaded; None if it can."""
        if layer not in listed:
            return "it is not there"
        try:
            found = read_layer(self.format.view(self.storage), listed[layer].address)
        except (Corrupt, OSError) as error:
            return str(error)
        missing = [one for one in graph.targets(found) if one not in listed]
        return f"it needs {missing[0]}, which is not there" if missing else None

    def forget(self, run_id: str) -> int:
        listed = self._listed_by(run_id)
        for state in (Condemnation.CONDEMNED, Condemnation.QUARANTINED):
            self._condemned.write(run_id, state, {})
        return len(listed)

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """What of a run's quarantine labels, leases or layers refer to now: a second mark."""
        view = self.format.view(self.storage)
        aside: dict[SnapshotId, list[str]] = {}
        shards, _ = view.folders(self.format.aside(run_id).rstrip("/"))
        for shard in shards:
            for one in view.list(shard):
                if layer := layer_of(one.address):
                    aside.setdefault(layer, []).append(one.address)
        readable = [
            next((one for one in found if one.endswith(ARCHIVE)), found[0])
            for found in aside.values()
            if not all(one.endswith(ROLLUP) for one in found)
        ]
        listed = self._list()
        layers, broken = self._read(listed, reader)
        rows = reader.snapshots(self.format, readable).to_pylist()
        gone = {to_layer(row).id: to_layer(row) for row in rows if row["fault"] is None}
        named = self._roots()
        leases = self._leases.valid(self.clock.now())
        known = {**gone, **layers}
        since = self.clock.now() - Margins().objects
        young = [found for found, one in listed.items() if one.changed >= since]
        marked = self._mark(known, broken, named, leases, young)
        return [
            one
            for layer, found in aside.items()
            if layer in marked.reached and layer not in layers
            for one in found
        ]

    # Leases

    def take_lease(self, layer: str, *, holder: str, length: timedelta = LENGTH) -> Lease:
        """Hold a layer, and all that it needs, for a while."""
        return self._leases.take(SnapshotId(layer), self._needs, holder=holder, length=length)

    def renew_lease(self, lease: Lease) -> Lease:
        return self._leases.renew(lease)

    def release_lease(self, lease_id: str) -> None:
        self._leases.release(lease_id)

    def leases(self) -> list[tuple[Lease, bool]]:
        now = self.clock.now()
        return [(lease, lease.valid_at(now)) for lease in self._leases.all()]

    def lease(self, layer: str, *, holder: str = "python") -> AbstractContextManager[HeldLease]:
        """Hold a layer while the block runs; its lease is renewed in the background."""
        return self._leases.held(SnapshotId(layer), self._needs, holder=holder)

    def _needs(self, layer: SnapshotId) -> Collection[SnapshotId]:
        """A layer with its ancestors and rollups, read now."""
        view = self.format.view(self.storage)
        found = {layer}
        waiting = [layer]
        while waiting:
            one = waiting.pop()
            base = f"{self.format.prefix}{stem(one)}"
            address = base + ARCHIVE if view.path(base + ARCHIVE).exists() else base
            if not view.path(address).exists():
                raise Gone(f"there is no layer {one}", hint="it may have been collected")
            for target in graph.targets(read_layer(view, address)):
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return found

    # Records

    def place(self, run_id: str) -> tuple[str, str]:
        return self.storage.url, f"{self.format.prefix}{OURS}/runs/{run_id}/"

    def start(self, run: Run) -> None:
        self._records.start(run)

    def find_run(self, run_id: str) -> Run | None:
        return self._records.find(run_id)

    def runs(self) -> Sequence[Run]:
        return self._records.all()

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        self._records.finish(run_id, state, summary)


def _parents(layer: Layer | None) -> tuple[SnapshotId, ...]:
    return tuple(graph.targets(layer))


def _read_locked(file: Path) -> bytes:
    """A label under a shared lock: it is rewritten in place under an exclusive one."""
    with translated("read", str(file)), file.open("rb") as found:
        fcntl.flock(found, fcntl.LOCK_SH)
        return found.read()

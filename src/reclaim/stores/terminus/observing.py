"""Observation of a store, in the order of the algorithm.

Note the time, list the layers, read the labels, read the leases, compute the reachable layers,
compare the time. Servers take no part: a layer about to be labelled is protected by its age alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import Clock, from_micros, to_micros
from reclaim.errors import Corrupt, IncompleteRead, OutOfTime
from reclaim.model import Lease, Ref, RefKind, SnapshotId
from reclaim.stores.findings import abbreviate
from reclaim.stores.format import SNAPSHOTS, Reader
from reclaim.stores.observation import (
    BUDGET,
    Margins,
    Observation,
    SnapshotCounts,
    Survey,
    YoungSnapshots,
)
from reclaim.stores.sidecar.condemned import Condemnation, CondemnedLists
from reclaim.stores.sidecar.leases import SidecarLeases
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import ROLLUP
from reclaim.stores.terminus.garbage import classify
from reclaim.stores.terminus.label_files import read_labels
from reclaim.stores.terminus.labels import Label
from reclaim.stores.terminus.layers import Layers
from reclaim.stores.terminus.missing import find_missing, shards_of
from reclaim.stores.terminus.promised import find_promised, needed_by, with_quarantined
from reclaim.stores.terminus.snapshot_table import list_layers
from reclaim.stores.terminus.survey import LayerSurvey

YOUNG = "younger than the margin"
SHOWN = 3
"""Maximum number of runs named in a sentence."""


@dataclass(frozen=True, slots=True)
class Marked:
    """Layers of a store, and those reached from labels, leases and young layers."""

    layers: Layers
    labels: Sequence[Label]
    leases: Sequence[Lease]
    reached: graph.Reached
    missing: Mapping[SnapshotId, SnapshotId]
    """Missing layers, if allowed, each with a layer naming it."""
    expected: int
    """Number of layers by the names in the shards, after the labels were read."""
    read: int
    """Number of these layers read, or unreadable with a reason."""


@dataclass(slots=True)
class TerminusObserver:
    """Observer of a store."""

    folder: Path
    clock: Clock
    survey: LayerSurvey
    leases: SidecarLeases
    lists: CondemnedLists
    layers: Layers | None = None
    """Layers of the last observation."""
    reached: frozenset[SnapshotId] = frozenset()
    allow_missing: bool = False
    """Whether the user confirmed the permanent loss of missing layers."""

    def observe(
        self, reader: Reader, margin: timedelta, listing: Survey | None = None
    ) -> Observation:
        if listing is None:
            now = self.clock.now()
            listing = Survey(self.survey.read_all(reader), now)
        started = listing.started_at
        listed = Layers.of(listing.rows)
        labels = read_labels(self.folder)
        read_at = self.clock.now()
        leases = self.leases.valid(read_at)
        names = self.survey.list_addresses()
        layers = self.survey.complete(listed, names, reader)
        young = _young(layers, listed, started - margin)
        reached = self._reach(layers, labels, leases, young)
        missing = self._missing(layers, reached)
        if self.clock.now() - started > BUDGET:
            raise OutOfTime(
                f"marking took longer than {BUDGET}; leases may have changed since",
                hint="nothing was changed; run it again, with more executors if it repeats",
            )
        self.layers, self.reached = layers, reached.ids
        existing = self.survey.ids(names)
        decoded = pc.sum(pc.is_in(existing, layers.ids)).as_py() or 0
        return self._describe(
            Marked(layers, labels, leases, reached, missing, expected=len(existing), read=decoded),
            read_at,
        )

    def read(self, addresses: Mapping[SnapshotId, str], reader: Reader) -> Layers:
        """Layers of the last observation, and additional layers at some addresses."""
        known = self.layers or Layers.of(SNAPSHOTS.empty_table())
        unread = [address for layer, address in addresses.items() if layer not in known]
        if unread:
            known = Layers.of(pa.concat_tables([known.rows, self.survey.read(unread, reader)]))
        self.layers = known
        return known

    def keep_whole(
        self,
        seen: Observation,
        taking: Collection[SnapshotId],
        promised: Mapping[str, Collection[SnapshotId]],
        reader: Reader,
    ) -> Observation:
        """Last observation, with promised layers and all their dependencies live as well.

        ``promised`` has the undoable runs, with the layers on their lists. ``taking`` are layers
        which such runs were about to quarantine, or have begun to restore.
        """
        assert self.layers is not None
        quarantines = [self.survey.quarantined(run) for run in promised]
        layers = find_promised(quarantines, self.survey).union(taking, *promised.values())
        if not layers:
            return seen
        all_layers = with_quarantined(self.layers, quarantines, self.survey, reader)
        observed = frozenset().union(*seen.containers.values())
        kept = (needed_by(layers, all_layers) & observed) - self.reached
        self.reached |= kept
        return replace(
            seen,
            ids=seen.ids | kept,
            reached=self.reached,
            unreadable=seen.unreadable - kept,
            warnings=(
                *seen.warnings,
                *_kept_warnings(kept, promised),
                *_lost_warnings(promised, all_layers),
            ),
        )

    def needed(
        self,
        run_id: str,
        others: Collection[str],
        promised: Mapping[str, Collection[SnapshotId]],
        reader: Reader,
    ) -> Collection[str]:
        """Quarantined objects of a run which are referenced now: a second mark, over the whole
        quarantine.

        ``others`` are the other runs with quarantined objects: their layers may need layers of this
        run. ``promised`` has the undoable runs among them, with the layers on their lists.
        """
        quarantined = {run: self.survey.quarantined(run) for run in {*others, run_id}}
        listed = Layers.of(self.survey.read_all(reader))
        labels = read_labels(self.folder)
        now = self.clock.now()
        leases = self.leases.valid(now)
        in_store = self.survey.complete(listed, self.survey.list_addresses(), reader)
        young = _young(in_store, listed, now - Margins().objects)
        all_layers = with_quarantined(in_store, quarantined.values(), self.survey, reader)
        marked = self._reach(all_layers, labels, leases, young)
        self._missing(all_layers, marked)
        quarantines = [quarantined.get(run, {}) for run in promised]
        layers = find_promised(quarantines, self.survey).union(*promised.values())
        reached = marked.ids | needed_by(layers, all_layers)
        # Includes objects of layers also in their place: they are deleted only if identical.
        # Excludes their rollup files: such a layer is loaded through its parents or a newer
        # rollup, and the target of an old rollup file may be gone.
        in_place = set(in_store.readable().to_pylist())
        return [
            address
            for layer, addresses in quarantined[run_id].items()
            if layer in reached
            for address in addresses
            if not (address.endswith(ROLLUP) and layer in in_place)
        ]

    def _reach(
        self,
        layers: Layers,
        labels: Sequence[Label],
        leases: Sequence[Lease],
        young: Collection[SnapshotId],
    ) -> graph.Reached:
        ids = layers.graph.ids
        # Includes unreadable young layers: they may be in the middle of a write.
        spared = {
            ids[layer]: "unreadable just now" for layer in np.flatnonzero(layers.unread).tolist()
        }
        spared |= dict.fromkeys(sorted(young), YOUNG)
        roots: dict[SnapshotId, str] = {}
        for lease in leases:
            roots[lease.snapshot] = f"the lease {lease.id} of {lease.holder}"
        for label in labels:
            if label.layer is not None:
                roots[label.layer] = f"the label {label.name}"
        try:
            return graph.reach(layers.graph, roots, spared=spared, allow_missing=self.allow_missing)
        except Corrupt as error:
            run = self.lists.set_aside_by(SnapshotId(str(error.details.get("layer", ""))))
            if run is None:
                raise
            raise Corrupt(
                error.message,
                hint=f"it is in the quarantine of run {run}; restore it with "
                f"`reclaim undo {run} --store terminus:{self.folder}`",
                **error.details,
            ) from error

    def _missing(self, layers: Layers, reached: graph.Reached) -> Mapping[SnapshotId, SnapshotId]:
        """Missing layers named by others; refuse unless allowed."""
        missing = dict(find_missing(self.survey.view, layers, reached))
        ids = layers.graph.ids
        missing |= {ids[lost]: ids[owner] for lost, owner in reached.lost.items()}
        if not missing or self.allow_missing:
            return missing
        layer, owner = min(missing.items())
        run = self.lists.set_aside_by(layer)
        undo = f"`reclaim undo {run} --store terminus:{self.folder}` restores it; " * bool(run)
        raise IncompleteRead(
            f"{len(missing)} layers named by live layers are missing, such as {layer} (in "
            f"{shards_of(list(missing))}); it is needed: "
            f"{' → '.join((*reached.chain(owner), layer))}",
            hint=f"{undo}restore the shards, or check whether they are mounted. If they are lost "
            "for good, continue with --unsafe-allow-missing-layers; nothing was deleted",
            missing=sorted(missing)[:100],
        )

    def _lacking_warnings(self, reached: graph.Reached) -> Iterator[str]:
        """Warn about layers kept in spite of missing dependencies."""
        lacking = set(reached.lacking)
        if not lacking:
            return
        ids, needs = reached.graph.ids, reached.graph.needs
        broken = sorted(
            ids[layer] for layer in reached.order if not lacking.isdisjoint(needs(layer))
        )
        runs = {run for layer in lacking if (run := self.lists.set_aside_by(ids[layer]))}
        undo = f"; to restore it, undo {abbreviate(sorted(runs))}" * bool(runs)
        yield (
            f"the parent or rollup of {len(broken)} layers not needed by labels is missing{undo}; "
            f"these layers cannot be loaded, and are kept while {YOUNG}: {abbreviate(broken)}"
        )

    def _describe(self, marked: Marked, read_at: datetime) -> Observation:
        layers, reached = marked.layers, marked.reached
        ids, faults = layers.graph.ids, layers.graph.faults
        states = self.lists.states()
        dead = [layer for layer in range(len(layers)) if layer not in reached]
        layer_ids = ids[: len(layers)]
        present = frozenset(layer_ids)
        condemned = {layer for layer, state in states.items() if state is Condemnation.CONDEMNED}
        return Observation(
            refs=tuple(
                Ref(label.name, RefKind.LABEL, label.layer)
                for label in marked.labels
                if label.layer
            ),
            ids=present - (condemned - self.reached),
            leases=tuple(marked.leases),
            busy=frozenset(),
            containers=self.survey.format.layer_objects(layer_ids, present),
            marked={layer: state.value for layer, state in states.items() if layer in present},
            closed=frozenset(),
            open=frozenset(),
            held=(),
            held_count=0,
            read_at=read_at,
            expected=SnapshotCounts(marked.expected, marked.expected),
            read=SnapshotCounts(marked.read, marked.read),
            reached=self.reached,
            why={ids[layer]: str(kind) for layer, kind in classify(layers.graph, dead).items()},
            list_snapshots=partial(list_layers, layers, reached),
            unreadable=frozenset(ids[layer] for layer in dead if layer in faults),
            warnings=(*_warnings(marked.missing), *self._lacking_warnings(reached)),
            young=_young_alone(layers, reached),
        )


def _warnings(missing: Mapping[SnapshotId, SnapshotId]) -> Iterator[str]:
    if missing:
        yield (
            f"{len(missing)} layers named by live layers are missing (in "
            f"{shards_of(list(missing))}), and were allowed to be missing: layers referenced "
            f"only by them are removed. {min(missing)} is named by {missing[min(missing)]}"
        )


def _kept_warnings(kept: Collection[SnapshotId], runs: Collection[str]) -> Iterator[str]:
    if kept:
        named = sorted(runs)
        more = f" and {len(named) - SHOWN} more" * (len(named) > SHOWN)
        yield (
            f"{len(kept)} layers are kept only because undoable runs need them "
            f"({', '.join(named[:SHOWN])}{more}); once purged or undone, they release the layers"
        )


def _young_alone(layers: Layers, reached: graph.Reached) -> YoungSnapshots | None:
    """Layers kept only by their age."""
    alone = [layer for layer, why in reached.roots.items() if why == YOUNG and layer < len(layers)]
    if not alone:
        return None
    times = layers.changed[alone]
    first, last = from_micros(int(times.min())), from_micros(int(times.max()))
    return YoungSnapshots(len(alone), first, last)


def _lost_warnings(
    promised: Mapping[str, Collection[SnapshotId]], all_layers: Layers
) -> Iterator[str]:
    """Warn about runs whose layers are neither in place nor in quarantine: their dependencies are
    unknown.
    """
    for run, layers in sorted(promised.items()):
        if away := sorted(layer for layer in layers if layer not in all_layers):
            yield (
                f"{len(away)} layers to be restored by run {run} are neither in place nor in "
                f"its quarantine; layers needed only by them are not protected: {abbreviate(away)}"
            )


def _young(layers: Layers, listed: Layers, since: datetime) -> Collection[SnapshotId]:
    """Layers changed since then, and all layers added during the observation."""
    young = np.flatnonzero((layers.changed >= to_micros(since)) | ~layers.among(listed))
    return frozenset(map(layers.graph.ids.__getitem__, young.tolist()))

"""Observing a store, in the order of the algorithm.

Note the time, list the layers, read the labels, read the leases, find what they reach, compare the
time. A server takes no part in it: what it is about to label is protected by its age alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from reclaim.clock import Clock, from_micros, to_micros
from reclaim.errors import Corrupt, OutOfTime
from reclaim.model import Lease, Ref, RefKind, Snapshot, SnapshotId
from reclaim.stores.base import Margins, Observation, Reader
from reclaim.stores.base import Survey as Seen
from reclaim.stores.beside.condemned import Condemnation
from reclaim.stores.beside.leases import Leases
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP
from reclaim.stores.terminus.condemning import Condemning
from reclaim.stores.terminus.format import LAYER
from reclaim.stores.terminus.garbage import classify
from reclaim.stores.terminus.labels import Label
from reclaim.stores.terminus.layer import Layer
from reclaim.stores.terminus.roots import read_labels
from reclaim.stores.terminus.survey import Found, Survey

BUDGET = timedelta(minutes=15)
"""From the note of the time to the end of the mark; leases are valid for longer than that."""


@dataclass(frozen=True, slots=True)
class Marked:
    """What was found, and what labels, leases and young layers reach of it."""

    found: Found
    named: Sequence[Label]
    leases: Sequence[Lease]
    young: Collection[SnapshotId]
    reached: graph.Reached


@dataclass(slots=True)
class Observer:
    """Looks at one store."""

    folder: Path
    clock: Clock
    survey: Survey
    leases: Leases
    condemning: Condemning
    layers: Mapping[SnapshotId, Layer] = field(default_factory=dict)
    """What the last look found."""
    reached: graph.Reached = field(default_factory=lambda: graph.Reached({}))

    def observe(
        self, reader: Reader, margin: timedelta, listing: Seen | None = None
    ) -> Observation:
        if listing is None:
            now = self.clock.now()
            listing = Seen(self.survey.look(reader), now)
        started = listing.started_at
        listed = self.survey.take(listing.rows)
        named = read_labels(self.folder)
        read_at = self.clock.now()
        leases = self.leases.valid(read_at)
        found = self.survey.read({**listed, **self.survey.more(listed)}, reader)
        since = to_micros(started - margin)
        # What came while we looked is young, whatever its time says.
        young = {
            layer
            for layer, one in found.listed.items()
            if one.changed >= since or layer not in listed
        }
        reached = self._reach(found.layers, found.broken, named, leases, young)
        if self.clock.now() - started > BUDGET:
            raise OutOfTime(
                f"finding what is live took longer than {BUDGET}; leases may have changed since",
                hint="nothing was changed; run it again, with more executors if it repeats",
            )
        self.layers, self.reached = found.layers, reached
        return self._told(Marked(found, named, leases, young, reached), read_at)

    def needed(self, run_id: str, others: Collection[str], reader: Reader) -> Collection[str]:
        """What of a run's quarantine is referred to now: a second mark, with all that is aside.

        ``others`` are the runs that have something aside, too: a layer there may need one here.
        """
        aside = {run: self.survey.aside(run) for run in {*others, run_id}}
        listed = self.survey.every()
        named = read_labels(self.folder)
        now = self.clock.now()
        leases = self.leases.valid(now)
        found = self.survey.read({**listed, **self.survey.more(listed)}, reader)
        tops = [_top(mine) for run in aside.values() for mine in run.values()]
        gone = self.survey.read_at([top for top in tops if top], reader)
        since = to_micros(now - Margins().objects)
        young = [
            layer
            for layer, one in found.listed.items()
            if one.changed >= since or layer not in listed
        ]
        reached = self._reach({**gone, **found.layers}, found.broken, named, leases, young)
        return [
            address
            for layer, mine in aside[run_id].items()
            if layer in reached
            for address in mine
            if layer not in found.layers or address.endswith(ROLLUP)
        ]

    def _reach(
        self,
        layers: Mapping[SnapshotId, Layer],
        broken: Mapping[SnapshotId, str],
        named: Sequence[Label],
        leases: Sequence[Lease],
        young: Collection[SnapshotId],
    ) -> graph.Reached:
        roots = {one: "younger than the margin" for one in sorted(young) if one in layers}
        for lease in leases:
            roots[lease.snapshot] = f"the lease {lease.id} of {lease.holder}"
        for label in named:
            if label.layer is not None:
                roots[label.layer] = f"the label {label.name}"
        try:
            return graph.reach(layers, roots, broken=broken)
        except Corrupt as error:
            aside = self.condemning.aside_of(SnapshotId(str(error.details.get("layer", ""))))
            if aside is None:
                raise
            raise Corrupt(
                error.message,
                hint=f"run {aside} has set it aside; bring it back with `reclaim undo {aside} "
                f"--store terminus:{self.folder}`",
                **error.details,
            ) from error

    def _told(self, marked: Marked, read_at: datetime) -> Observation:
        found, reached = marked.found, marked.reached
        states = self.condemning.states()
        # A young one that cannot be read is being written just now, and nobody's business.
        judged = {
            layer: one
            for layer, one in found.listed.items()
            if not (layer in found.broken and layer in marked.young)
        }
        dead = [layer for layer in judged if layer not in reached]
        return Observation(
            refs=tuple(
                Ref(label.name, RefKind.LABEL, label.layer) for label in marked.named if label.layer
            ),
            snapshots=tuple(
                Snapshot(
                    layer, tuple(graph.targets(found.layers.get(layer))), from_micros(one.changed)
                )
                for layer, one in judged.items()
                if layer in reached or states.get(layer) != Condemnation.CONDEMNED
            ),
            leases=tuple(marked.leases),
            busy=frozenset(),
            tops={layer: (one.address, LAYER) for layer, one in judged.items()},
            marked={layer: state.value for layer, state in states.items() if layer in judged},
            closed=frozenset(),
            open=frozenset(),
            held=(),
            held_count=0,
            read_at=read_at,
            reached=frozenset(reached.steps),
            why={layer: str(kind) for layer, kind in classify(found.layers, dead).items()},
        )


def _top(addresses: Collection[str]) -> str | None:
    """The object to read of a layer that was set aside; None if only its rollup was."""
    tops = [one for one in addresses if not one.endswith(ROLLUP)]
    return next((one for one in tops if one.endswith(ARCHIVE)), tops[0] if tops else None)

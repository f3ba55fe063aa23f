"""A TerminusDB store in a folder.

``observing`` observes it, ``survey`` lists and reads layers, ``held`` changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path

from reclaim.clock import Clock, SystemClock
from reclaim.errors import InvalidInput, NotFound, Refused
from reclaim.model import Lease, SnapshotId
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.abilities import (
    HoldsLeases,
    NeedsOtherSnapshots,
    Quarantines,
    ReportsRereferenced,
)
from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation, ObserveRequest
from reclaim.stores.sidecar.leases import LENGTH, HeldLease
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.sidecar.store import SidecarStore
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import OURS, ROLLUP, layer_of
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.held import HeldTerminus
from reclaim.stores.terminus.label_files import read_labels
from reclaim.stores.terminus.layer import is_id
from reclaim.stores.terminus.observing import TerminusObserver
from reclaim.stores.terminus.survey import LayerSurvey
from reclaim.urls import normalize

SAFETY_BASIS = (
    "Labels and leases were read after the layers were listed. A running server takes no leases: "
    "what it has in memory, or is about to label, is protected by the margin alone."
)


class TerminusStore(
    SidecarStore, HoldsLeases, NeedsOtherSnapshots, Quarantines, ReportsRereferenced
):
    """A TerminusDB store."""

    kind = "terminus"
    noun = "layer"
    exact = False
    quarantine_by_default = True
    deleted = False
    safety_basis = SAFETY_BASIS
    handle = HeldTerminus
    format: TerminusFormat

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        storage: Storage | None = None,
        allow_missing: bool = False,
    ) -> None:
        resolved = folder.expanduser().resolve()
        if not resolved.is_dir():
            raise NotFound(f"there is no folder {folder}", hint="name the folder of the store")
        if not str(resolved).isprintable():
            raise Refused(
                f"the name of the folder {str(resolved)!r} has characters not allowed in addresses",
                hint="rename the folder",
            )
        if resolved.parent == resolved:
            raise InvalidInput("the root of a disk cannot be a store", hint="name its folder")
        self.folder = resolved
        self.name = resolved.name
        self.uid = normalize(str(resolved))
        self.clock = clock or SystemClock()
        self.format = TerminusFormat(normalize(str(resolved.parent)), resolved.name)
        inner = storage or ObjectStorage.open(self.format.root)
        self._view = self.format.view(inner)
        self.storage = self._view
        prefix = f"{self.format.prefix}{OURS}/"
        super().__init__(Sidecar(inner, prefix, self.clock, runs=self.storage))
        self._leases = self._sidecar.leases
        self._survey = LayerSurvey(self.format, self.storage)
        self._observer = TerminusObserver(
            resolved,
            self.clock,
            self._survey,
            self._leases,
            self._sidecar.lists,
            allow_missing=allow_missing,
        )

    def check(self) -> None:
        self._view.check()
        read_labels(self.folder)

    def allow_missing(self) -> None:
        """Continue without missing layers named by live layers, as explicitly confirmed."""
        self._observer.allow_missing = True

    def observe(self, request: ObserveRequest) -> Observation:
        return self._observer.observe(request.reader, request.margin, request.survey)

    @contextmanager
    def lock(self, run_id: str) -> Iterator[HeldTerminus]:
        self._view.check()
        with self._sidecar.lock(run_id) as lock:
            yield HeldTerminus(lock, self._sidecar, self._observer, self.format)

    def clean(self) -> None:
        self._sidecar.clean()

    # Order and undo

    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Children before parents, layers before their rollups, rollup files first."""
        by_layer: dict[SnapshotId | None, list[str]] = {}
        for address in sorted(addresses, key=lambda address: not address.endswith(ROLLUP)):
            by_layer.setdefault(layer_of(address), []).append(address)
        last_address = {
            layer: objects[-1] for layer, objects in by_layer.items() if layer is not None
        }
        layer_graph = self._observer.read(
            {
                layer: address
                for layer, address in last_address.items()
                if not address.endswith(ROLLUP)
            },
            reader,
        ).graph
        known = [
            layer_graph.numbers[layer] for layer in last_address if layer in layer_graph.numbers
        ]
        order = [layer_graph.ids[layer] for layer in graph.deletion_order(layer_graph, known)]
        # Other objects, or a rollup file without its layer: the order is unknown.
        unknown = [layer for layer in by_layer if layer not in layer_graph.numbers]
        return [address for layer in (*unknown, *order) for address in by_layer[layer]]

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Without containers: ``restore`` itself checks whether a layer can be loaded."""
        return {layer: {} for layer in self._sidecar.lists.taken_by(run_id)}

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:  # noqa: ARG002
        """Always empty: dependencies of quarantined layers are found by ``keep_whole``."""
        return {}

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """Quarantined objects of a run referenced by labels, leases or layers: a second mark."""
        # By folders: quarantined objects count regardless of the run's record.
        runs = self._view.quarantined_runs()
        return self._observer.needed(run_id, runs, self._promised(besides=run_id), reader)

    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """Return an observation with promised layers, and dependencies of quarantined layers, live
        as well.
        """
        taking = {layer for address in held if (layer := layer_of(address))}
        return self._observer.keep_whole(seen, taking, self._promised(besides), reader)

    def _promised(self, besides: str) -> Mapping[str, Collection[SnapshotId]]:
        """Other undoable runs, each with the layers on its lists.

        A run with a quarantine but without a readable record may be undoable, and is included. For
        a run with a started purge, only the layers still in quarantine count.
        """
        runs = self.runs()
        ended = {run.id for run in runs if not run.may_quarantine}
        promising = {*self._view.quarantined_runs(), *(run.id for run in runs)} - ended
        purging = {run.id for run in runs if run.purging}
        return {
            run: {} if run in purging else self._sidecar.lists.taken_by(run)
            for run in sorted(promising - {besides})
        }

    # Leases

    def take_lease(self, layer: str, *, holder: str, length: timedelta = LENGTH) -> Lease:
        """Take a lease on a layer with all its dependencies."""
        return self._leases.take(_id(layer), self._survey.needs, holder=holder, length=length)

    def lease(self, layer: str, *, holder: str = "python") -> AbstractContextManager[HeldLease]:
        """Hold a layer while the block runs; its lease is renewed in the background."""
        return self._leases.held(_id(layer), self._survey.needs, holder=holder)


def open_store(location: str) -> TerminusStore:
    """Open the store in a folder."""
    return TerminusStore(Path(location))


def _id(text: str) -> SnapshotId:
    if not is_id(text):
        raise InvalidInput(f"{text!r} is not the id of a layer", hint="an id has 40 hex digits")
    return SnapshotId(text)

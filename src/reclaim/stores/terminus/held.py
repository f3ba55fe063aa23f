"""A TerminusDB store whose lock is held."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reclaim.errors import Corrupt, Gone, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.abilities import HeldQuarantine, Restored
from reclaim.stores.sidecar.held import HeldSidecar
from reclaim.stores.sidecar.lock import SidecarLock
from reclaim.stores.sidecar.sidecar import Sidecar
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.label_files import read_labels
from reclaim.stores.terminus.observing import TerminusObserver
from reclaim.stores.terminus.survey import NOT_THERE


class HeldTerminus(HeldSidecar, HeldQuarantine):
    """Handle of a store under its lock. It condemns, quarantines and restores layers."""

    def __init__(
        self,
        lock: SidecarLock,
        sidecar: Sidecar,
        observer: TerminusObserver,
        format: TerminusFormat,
    ) -> None:
        super().__init__(lock, sidecar.lists, sidecar.records, sidecar.leases)
        self._observer = observer
        self._format = format

    def condemn(self, rules: Mapping[SnapshotId, str]) -> int:
        observer = self._observer
        named = {label.layer for label in read_labels(observer.folder)}
        named |= {lease.snapshot for lease in observer.leases.valid(observer.clock.now())}
        return super().condemn({layer: rule for layer, rule in rules.items() if layer not in named})

    def release(self, ids: Collection[SnapshotId]) -> None:
        """Release reached layers, including condemned layers.

        A server does not read the lists, so it may have labelled such a layer.
        """
        self._release(ids, self._observer.reached)

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Without containers: the layers which can be loaded with all their dependencies."""
        return {layer: {} for layer in self._left_by_others() if self._is_whole(layer)}

    def _is_whole(self, layer: SnapshotId) -> bool:
        survey = self._observer.survey
        if survey.fault(layer):
            return False
        try:
            survey.needs(layer)
        except (Gone, Corrupt, UnknownVersion):
            return False
        return True

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Remove the layers from the lists; report unloadable layers.

        An unloadable layer may never have been loadable. It waits as long as objects of the run are
        missing, or another undoable run may have its dependencies.
        """
        survey = self._observer.survey
        faults = {
            layer: survey.fault(layer)
            for layer in sorted(self._lists.taken_by(run_id))
            if layer in whole
        }
        named = [f"layer {layer}: {fault}" for layer, fault in faults.items() if fault]
        loadable = [layer for layer, fault in faults.items() if not fault]
        lacks = any(fault and fault.endswith(NOT_THERE) for fault in faults.values())
        others = any(run.undoable and run.id != run_id for run in self._records.all())
        complete = complete and not (lacks and others)
        self._remove_restored(run_id, list(faults) if complete else loadable)
        if not complete:
            return Restored(len(loadable), (), named)
        view = survey.view
        # Before the run ends: if this listing fails, the undo can be repeated.
        strays = view.strays(self._format.quarantine_path(run_id).rstrip("/"))
        named += (f"{view.path(stray)} belongs to no layer, and was kept" for stray in strays)
        self._end(run_id)
        return Restored(len(loadable), named, ())

"""A TerminusDB store in a folder, as the runs see it.

Others do the work: ``observing`` looks, ``survey`` lists and reads, ``condemning`` keeps the lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from reclaim.catalog.addresses import new_uid
from reclaim.clock import Clock, SystemClock
from reclaim.errors import Conflict, InvalidInput, NotFound, Refused
from reclaim.model import Lease, Ref, Run, RunState, SnapshotId
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.base import HeldLock, Observation, Reader, Restored
from reclaim.stores.base import Survey as Seen
from reclaim.stores.beside import lock as locking
from reclaim.stores.beside.condemned import CondemnedLists
from reclaim.stores.beside.leases import LENGTH, HeldLease, Leases
from reclaim.stores.beside.plans import NotedPlans
from reclaim.stores.beside.records import Records
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.addresses import OURS, ROLLUP, layer_of
from reclaim.stores.terminus.condemning import Condemning
from reclaim.stores.terminus.format import TerminusFormat
from reclaim.stores.terminus.layer import is_id
from reclaim.stores.terminus.observing import Observer
from reclaim.stores.terminus.roots import read_labels
from reclaim.stores.terminus.survey import NOT_THERE, Survey
from reclaim.urls import normalize

PROMISE = (
    "Labels and leases were read after the layers were listed. A running server takes no leases: "
    "what it has in memory, or is about to label, is protected by the margin alone."
)


class TerminusStore:
    """One store."""

    kind = "terminus"
    noun = "layer"
    exact = False
    careful = True
    deleted = False
    promise = PROMISE

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        storage: Storage | None = None,
        allow_missing: bool = False,
    ) -> None:
        found = folder.expanduser().resolve()
        if not found.is_dir():
            raise NotFound(f"there is no folder {folder}", hint="name the folder of the store")
        if not str(found).isprintable():
            raise Refused(
                f"the name of the folder {str(found)!r} has characters that no address can have",
                hint="rename the folder",
            )
        if found.parent == found:
            raise InvalidInput("the root of a disk cannot be a store", hint="name its folder")
        self.folder = found
        self.name = found.name
        self.uid = normalize(str(found))
        self.clock: Clock = clock or SystemClock()
        self.format = TerminusFormat(normalize(str(found.parent)), found.name)
        inner = storage or ObjectStorage.open(self.format.root)
        self._view = self.format.view(inner)
        self.storage: Storage = self._view
        ours = f"{self.format.prefix}{OURS}/"
        lists = CondemnedLists(inner, f"{ours}condemned/")
        self._condemning = Condemning(lists)
        self._leases = Leases(inner, f"{ours}leases/", self.clock, lists)
        self._records = Records(self.storage, f"{ours}runs/")
        self._plans = NotedPlans(inner, f"{ours}plans/", self.clock)
        self._locks = f"{ours}lock/"
        self._inner = inner
        self._survey = Survey(self.format, self.storage)
        self._observer = Observer(
            found,
            self.clock,
            self._survey,
            self._leases,
            self._condemning,
            allow_missing=allow_missing,
        )

    def check(self) -> None:
        self._view.check()
        read_labels(self.folder)

    def allow_missing_layers(self) -> None:
        """Go on although layers that live ones name are not there: a person says so."""
        self._observer.allow_missing = True

    def observe(
        self,
        destination: Storage,  # noqa: ARG002
        prefix: str,  # noqa: ARG002
        *,
        reader: Reader,
        margin: timedelta,
        survey: Seen | None = None,
        settled: bool = False,  # noqa: ARG002
    ) -> Observation:
        return self._observer.observe(reader, margin, survey)

    # Condemning

    @contextmanager
    def lock(self, run_id: str) -> Iterator[HeldLock]:
        self._view.check()
        with locking.hold(self._inner, self._locks, self.clock, run_id) as lock:
            with self._condemning.under(lock, run_id):
                yield lock

    def begin(self, run_id: str) -> None:  # noqa: ARG002
        self._condemning.begin()

    def abandon(self) -> None:
        self._condemning.abandon()

    def clean(self) -> None:
        """Take off the marks of runs that died, unless a run is at work."""
        if self._condemning.marked():
            with suppress(Conflict), self.lock(new_uid()):
                self._condemning.begin()

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
        named = {label.layer for label in read_labels(self.folder)}
        named |= {lease.snapshot for lease in self._leases.valid(self.clock.now())}
        self._condemning.mark({one: rule for one, rule in rules.items() if one not in named})

    def release(self, ids: Collection[SnapshotId]) -> None:
        self._condemning.release(ids, self._observer.reached.__contains__)

    def promote(self) -> int:
        return self._condemning.promote()

    def collect(self, ids: Collection[SnapshotId]) -> int:
        others = [run.id for run in self.runs() if run.quarantine]
        return self._condemning.collect(ids, but_of=others)

    # Order, and the way back

    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Children before parents, what is loaded through another before that, rollups first."""
        by_layer: dict[SnapshotId | None, list[str]] = {}
        for address in sorted(addresses, key=lambda one: not one.endswith(ROLLUP)):
            by_layer.setdefault(layer_of(address), []).append(address)
        tops = {one: mine[-1] for one, mine in by_layer.items() if one is not None}
        found = self._observer.read(
            {one: top for one, top in tops.items() if not top.endswith(ROLLUP)}, reader
        ).graph
        known = [found.numbers[one] for one in tops if one in found.numbers]
        order = [found.ids[one] for one in graph.deletion_order(found, known)]
        # What is not a layer's, or a rollup file whose layer is elsewhere: no order is known.
        first = [one for one in by_layer if one not in found.numbers]
        return [address for one in (*first, *order) for address in by_layer[one]]

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        others = [run.id for run in self.runs() if run.quarantine]
        return self._condemning.set_aside(ids, but_of=others)

    def taken(self, run_id: str) -> Mapping[SnapshotId, str | None]:
        return dict.fromkeys(self._condemning.of(run_id))

    def waiting(self, run_id: str) -> Collection[str]:  # noqa: ARG002
        """None: a run condemns layers that are old enough, and sets all of them aside."""
        return ()

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Take the layers off the lists again; one that cannot be loaded is named.

        It may never have been loadable. It waits as long as objects of the run are missing, or
        another run that can be undone may have what it needs.
        """
        faults = {
            found: self._survey.fault(found)
            for found in sorted(self._condemning.of(run_id))
            if found in whole
        }
        named = [f"layer {found}: {fault}" for found, fault in faults.items() if fault]
        loadable = [found for found, fault in faults.items() if not fault]
        lacks = any(fault and fault.endswith(NOT_THERE) for fault in faults.values())
        others = any(run.quarantine and run.id != run_id for run in self.runs())
        complete = complete and not (lacks and others)
        self._condemning.bring_back(run_id, list(faults) if complete else loadable)
        if not complete:
            return Restored(len(loadable), (), named)
        run = self.find_run(run_id)
        self.finish(run_id, RunState.UNDONE, run.summary if run else {})
        strays = self._view.strays(self.format.aside(run_id).rstrip("/"))
        named += (f"{self._view.path(stray)} is not of a layer, and was left" for stray in strays)
        return Restored(len(loadable), named, ())

    def forget(self, run_id: str) -> int:
        return self._condemning.forget(run_id)

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """What of a run's quarantine labels, leases or layers refer to now: a second mark."""
        # By their folders: what a run has aside counts, whatever its record says.
        others = self._view.quarantined_runs()
        return self._observer.needed(run_id, others, self._promised(besides=run_id), reader)

    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """With what layers in quarantine need as live as well, and those that are promised."""
        taking = {layer for address in held if (layer := layer_of(address))}
        return self._observer.keep_whole(seen, taking, self._promised(besides), reader)

    def _promised(self, besides: str) -> Mapping[str, Collection[SnapshotId]]:
        """The other runs that can be undone, each with the layers that are on its lists.

        One that has something in quarantine and no readable record may be one of them.
        """
        runs = self.runs()
        ended = {
            run.id for run in runs if run.quarantine is None and run.state != RunState.UNREADABLE
        }
        promising = {*self._view.quarantined_runs(), *(run.id for run in runs)} - ended
        return {run: self._condemning.of(run) for run in sorted(promising - {besides})}

    # Leases

    def take_lease(self, layer: str, *, holder: str, length: timedelta = LENGTH) -> Lease:
        """Hold a layer, and all that it needs, for a while."""
        return self._leases.take(_id(layer), self._survey.needs, holder=holder, length=length)

    def renew_lease(self, lease: Lease) -> Lease:
        return self._leases.renew(lease)

    def release_lease(self, lease_id: str) -> None:
        self._leases.release(lease_id)

    def leases(self) -> list[tuple[Lease, bool]]:
        now = self.clock.now()
        return [(lease, lease.valid_at(now)) for lease in self._leases.all()]

    def lease(self, layer: str, *, holder: str = "python") -> AbstractContextManager[HeldLease]:
        """Hold a layer while the block runs; its lease is renewed in the background."""
        return self._leases.held(_id(layer), self._survey.needs, holder=holder)

    # Records

    def place(self, run_id: str) -> tuple[str, str]:
        return self.storage.url, f"{self.format.prefix}{OURS}/runs/{run_id}/"

    def start(self, run: Run) -> None:
        self._condemning.check()
        self._records.start(run)

    def note_plan(self, run_id: str, digest: str) -> None:
        self._plans.note(run_id, digest)

    def noted_plan(self, run_id: str) -> str | None:
        return self._plans.find(run_id)

    def find_run(self, run_id: str) -> Run | None:
        return self._records.find(run_id)

    def runs(self) -> Sequence[Run]:
        return self._records.all()

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        self._condemning.check()
        self._records.finish(run_id, state, summary)


def _id(text: str) -> SnapshotId:
    if not is_id(text):
        raise InvalidInput(f"{text!r} is not the id of a layer", hint="an id has 40 hex digits")
    return SnapshotId(text)

"""Ways to take objects away: for good, or aside, from where they can be brought back.

A way brings the deleter that a sweep uses. The sweep does not know which way it goes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from reclaim import buckets
from reclaim.errors import Refused
from reclaim.model import Run, SnapshotId
from reclaim.run import document
from reclaim.run.document import PlanDocument
from reclaim.run.journal import Journal
from reclaim.stores.base import QUARANTINE, Collectable, Margins, Quarantines
from reclaim.tasks.aside import Aside, BringBack, SetAside
from reclaim.tasks.deleting import Deleter, Remove
from reclaim.tasks.engine import Containers, Engine
from reclaim.tasks.judging import Rules
from reclaim.tasks.markers import LARGEST_COPY, Expunge, Mark, Unmark
from reclaim.tasks.parts import Opener, Part, Place

KEEP = timedelta(days=7)
"""How long what was set aside is kept by default."""
FAR = timedelta(days=3650)


class Way(Protocol):
    """How an apply takes objects away."""

    @property
    def name(self) -> str | None:
        """What a run's record calls it; None for deleting."""
        ...

    def check(self, store: Collectable, planned: PlanDocument) -> None:
        """Refuse what cannot be done in this way, before anything is."""
        ...

    def deleter(self, store: Collectable, run_id: str) -> Deleter: ...

    def settle(self, store: Collectable, ids: Collection[SnapshotId]) -> int:
        """Let go of snapshots whose objects were taken."""
        ...

    def facts(self, now: datetime) -> dict[str, Any]:
        """What a run's record has to say of it from the start."""
        ...

    def requests(self, store: Collectable, objects: int) -> int:
        """How many requests that are paid for it takes, where requests are."""
        ...


class AsideWay(Way, Protocol):
    """A way that has a way back."""

    def rows(
        self, store: Collectable, engine: Engine, run: Run, place: Place, opener: Opener
    ) -> Sequence[Part]:
        """What a run has set aside, as far as it is still there."""
        ...

    def ended(
        self, store: Collectable, engine: Engine, run: Run, place: Place, opener: Opener
    ) -> Sequence[Part]:
        """What goes for good when the window ends: what the run took, and nothing else."""
        ...

    def back(self, store: Collectable, run_id: str) -> Deleter: ...

    def away(self, store: Collectable, run_id: str) -> Deleter: ...


@dataclass(frozen=True, slots=True)
class Delete:
    """For good."""

    name: None = None

    def check(self, store: Collectable, planned: PlanDocument) -> None:
        pass

    def deleter(self, store: Collectable, run_id: str) -> Deleter:  # noqa: ARG002
        return Remove()

    def settle(self, store: Collectable, ids: Collection[SnapshotId]) -> int:
        return store.collect(ids)

    def facts(self, now: datetime) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def requests(self, store: Collectable, objects: int) -> int:  # noqa: ARG002
        return 0


DELETE = Delete()


@dataclass(frozen=True, slots=True)
class Move:
    """Into a folder of the store: renamed on a disk, copied and deleted elsewhere."""

    keep: timedelta = KEEP
    name: str = "moved"

    def check(self, store: Collectable, planned: PlanDocument) -> None:
        _check_store(store)
        large = [one for one in planned.largest if one.bytes > LARGEST_COPY]
        if large and store.storage.at_once > 1:
            raise Refused(
                f"{large[0].address} has {large[0].bytes} bytes; S3 copies at most "
                f"{LARGEST_COPY} in one request",
                hint="apply it without --quarantine, or with --markers in a bucket with versioning",
            )

    def deleter(self, store: Collectable, run_id: str) -> Deleter:
        return SetAside(_aside(store, run_id))

    def settle(self, store: Collectable, ids: Collection[SnapshotId]) -> int:
        return _check_store(store).set_aside(ids)

    def facts(self, now: datetime) -> dict[str, Any]:
        return _facts(self.name, now, self.keep)

    def requests(self, store: Collectable, objects: int) -> int:
        # A copy and a look at it; deletes are free.
        return 2 * objects if store.storage.at_once > 1 else 0

    def rows(
        self,
        store: Collectable,
        engine: Engine,
        run: Run,
        place: Place,
        opener: Opener,  # noqa: ARG002
    ) -> Sequence[Part]:
        folder = store.format.aside(run.id).rstrip("/")
        inside, objects = store.storage.folders(folder)
        units = inside if not objects else [folder]
        listed = engine.list(store.format, units, place.below("listing"))
        now = store.clock.now()
        rules = Rules(
            cutoffs={QUARANTINE: now + FAR},
            closed=frozenset(),
            open=frozenset(),
            causes=(),
            reasons={QUARANTINE: f"set aside by run {run.id}"},
            now=now,
            own="",
        )
        none = Containers((), 0, 0, 0)
        found = engine.find(
            store.format, listed, none, (), rules, place.below("objects"), place.below("work")
        )
        return [replace(part, group=QUARANTINE) for part in found.parts]

    def ended(
        self, store: Collectable, engine: Engine, run: Run, place: Place, opener: Opener
    ) -> Sequence[Part]:
        return self.rows(store, engine, run, place, opener)

    def back(self, store: Collectable, run_id: str) -> Deleter:
        return BringBack(_aside(store, run_id))

    def away(self, store: Collectable, run_id: str) -> Deleter:  # noqa: ARG002
        return Remove()


@dataclass(frozen=True, slots=True)
class Markers:
    """By delete markers, in a bucket that keeps versions."""

    keep: timedelta = KEEP
    name: str = "marked"

    def check(self, store: Collectable, planned: PlanDocument) -> None:
        _check_store(store)
        found = buckets.versioning(store.storage.url)
        if found != buckets.ENABLED:
            what = found or ("not known" if found is None else "off")
            raise Refused(
                f"delete markers need a bucket with versioning; it is {what} here",
                hint="use --quarantine without --markers",
            )
        if planned.place.url != store.storage.url or self.keep > Margins().records:
            raise Refused(
                "what markers cover is found by the plan, which lies elsewhere or would be "
                "collected before",
                hint=f"plan it without --out, and keep it for at most {Margins().records.days} d",
            )

    def deleter(self, store: Collectable, run_id: str) -> Deleter:  # noqa: ARG002
        return Mark()

    def settle(self, store: Collectable, ids: Collection[SnapshotId]) -> int:
        return _check_store(store).set_aside(ids)

    def facts(self, now: datetime) -> dict[str, Any]:
        return _facts(self.name, now, self.keep)

    def requests(self, store: Collectable, objects: int) -> int:  # noqa: ARG002
        return 0

    def rows(
        self,
        store: Collectable,  # noqa: ARG002
        engine: Engine,
        run: Run,
        place: Place,  # noqa: ARG002
        opener: Opener,
    ) -> Sequence[Part]:
        # Those of the plan that were not taken have no marker, and are left as they are.
        found, planned = document.find(opener(run.place), run.place)
        parts = [file.part for file in planned.files]
        engine.verify(parts, found)
        return [replace(part, group=QUARANTINE) for part in parts]

    def ended(
        self,
        store: Collectable,  # noqa: ARG002
        engine: Engine,  # noqa: ARG002
        run: Run,
        place: Place,  # noqa: ARG002
        opener: Opener,
    ) -> Sequence[Part]:
        # A marker does not tell whose it is: what the plan lists may be another run's by now.
        found, _ = document.find(opener(run.place), run.place)
        applies = found.below("apply")
        journal = Journal(opener(found.url), applies, applies)
        return [replace(part, group=QUARANTINE) for part in journal.parts()]

    def back(self, store: Collectable, run_id: str) -> Deleter:  # noqa: ARG002
        return Unmark()

    def away(self, store: Collectable, run_id: str) -> Deleter:  # noqa: ARG002
        return Expunge()


WAYS: Mapping[str, AsideWay] = {"moved": Move(), "marked": Markers()}


def way_of(run: Run) -> AsideWay | None:
    """How a run set its objects aside; None when it did not, or they are not there any more."""
    return WAYS.get(run.quarantine or "")


def _check_store(store: Collectable) -> Quarantines:
    if not isinstance(store, Quarantines):
        raise Refused(f"a {store.kind} store cannot have anything back", hint="apply it without")
    return store


def _aside(store: Collectable, run_id: str) -> Aside:
    return Aside(store.format.prefix, store.format.aside(run_id))


def _facts(name: str, now: datetime, keep: timedelta) -> dict[str, Any]:
    return {"quarantine": name, "since": now.isoformat(), "until": (now + keep).isoformat()}

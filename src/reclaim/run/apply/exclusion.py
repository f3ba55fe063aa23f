"""Exclusion: objects that a person leaves out of an apply. They stay, and are planned again.

Only objects are left out. Commits go as the plan says: one of which an object stays is as unusable
as if all were gone, until an undo brings back the rest. Where snapshots are of no use without
others, those that are left out stay live, with all that they need (decision 0039).

When its commits are gone, nothing but the list of who left it out tells the path of an object. So
an exclusion reads the lists of earlier runs: the same glob leaves out the same objects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.requests import ExcludeRequest
from reclaim.engine.tasks.deleting import Outcome
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_part
from reclaim.errors import Corrupt, IncompleteRead, NotFound, PlanRefused, Refused, StorageDenied
from reclaim.ids import new_uid
from reclaim.run.plan import plan_file
from reclaim.run.record.known_lists import decode, encode
from reclaim.run_record import RunRecord
from reclaim.storage import Storage
from reclaim.stores.abilities import NeedsOtherSnapshots
from reclaim.stores.base import Store

FOLDER = "excluded"
"""The folder of an apply with the list of what was left out."""
FILES = "excluded.json"
"""The file of an apply that names the files of that list."""
LATEST_RUNS = 100
"""How many of the runs that left something out are asked for paths, the newest first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The candidates that a person leaves out, and those that are left to go."""

    globs: Sequence[str]
    included: Sequence[Part]
    excluded: Sequence[Part]
    needing: Sequence[str] = ()
    """Addresses of what was left out, where snapshots need others."""


def exclude(
    store: Store,
    engine: Engine,
    candidates: Sequence[Part],
    globs: Sequence[str],
    *,
    own: Place,
    opener: Opener,
    paths: Sequence[Part] = (),
) -> Exclusion:
    """Leave candidates out by globs. A glob that matches none of the plan is refused: what it was
    meant to keep would go. ``paths`` has further paths of the candidates."""
    earlier = [*paths, *_find_earlier(store, own, opener)]
    request = ExcludeRequest(
        candidates, globs, own.below("work").below("included"), own.below(FOLDER), earlier
    )
    try:
        split = pipelines.exclude(engine, request)
    except (PlanRefused, Corrupt) as error:
        damaged = [part.address for part in earlier if part.address in error.message]
        if not damaged:
            raise
        raise PlanRefused(
            f"the list of what an earlier run left out is damaged: {error.message}",
            hint=f"nothing was changed; restore {damaged[0]}, or remove it: then what only it has "
            "a path of is not left out by its path",
        ) from error
    idle = [glob for glob, count in zip(globs, split.matches, strict=True) if not count]
    if idle:
        raise PlanRefused(
            f"--exclude {idle[0]!r} matches no object of the plan",
            hint="nothing was changed; see the addresses and paths with `reclaim show PLAN "
            "--objects`, or leave it out",
            exclude=idle,
        )
    expected, read = _rows(candidates), _rows(split.included) + _rows(split.excluded)
    if expected != read:
        raise IncompleteRead(
            f"the plan lists {expected} objects, and {read} were read to leave some out",
            hint="nothing was changed; apply it again",
        )
    needing: list[str] = []
    if isinstance(store, NeedsOtherSnapshots):
        # The driver knows the snapshots of such a store one by one.
        for part in split.excluded:
            rows = read_part(opener(own.url), part, ["address"])
            needing += rows.column("address").to_pylist()
    return Exclusion(globs, split.included, split.excluded, needing)


def write_files(storage: Storage, own: Place, parts: Sequence[Part]) -> None:
    """Name the files with what an apply left out, for the exclusions of later runs."""
    storage.put(own.at(FILES), encode([(part, Outcome()) for part in parts]))
    storage.flush([*(part.address for part in parts), own.at(FILES)])


def _find_earlier(store: Store, own: Place, opener: Opener) -> Iterator[Part]:
    """The files with what earlier runs left out, in the storage of this apply."""
    leaving = (run for run in store.runs() if run.left_out.place)
    for run in islice(leaving, LATEST_RUNS):
        listed = _read_files(run, opener)
        if listed is None:
            continue
        place, parts = listed
        storage = opener(place.url)
        for part in parts:
            try:
                storage.head(part.address)
            except NotFound:
                log.warning("%s, with what run %s left out, is gone", part.address, run.id)
                continue
            if place.url == own.url:
                yield part
            else:
                copy = own.below("work").at(f"earlier-{new_uid()}.parquet")
                yield write_part(opener(own.url), copy, read_part(storage, part))


def _read_files(run: RunRecord, opener: Opener) -> tuple[Place, Sequence[Part]] | None:
    """The files with what a run left out, and where; None if its plan is not there any more."""
    try:
        place, planned = plan_file.find_run(opener(run.place), run.place)
        # Its folder has the id of the apply.
        apply_id = run.left_out.place.rstrip("/").split("/")[-2]
        own = place.below("apply").below(apply_id)
        if planned.run == run.id:
            body = opener(own.url).get(own.at(FILES))
            return own, [part for part, _ in decode(body, own.at(FILES))]
    except (NotFound, Refused, Corrupt, StorageDenied, IndexError) as error:
        log.warning(
            "what run %s left out cannot be read, and is left out again only by address: %s",
            run.id,
            error,
        )
    return None


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)

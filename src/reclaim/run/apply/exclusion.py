"""Exclusion: objects a user excludes from an apply. They stay, and later plans list them again.

Only objects can be excluded. Commits go as planned: a commit with a single remaining object is as
unusable as an empty commit, until an undo restores the rest. In stores whose snapshots depend on
others, excluded snapshots stay live with all their dependencies (decision 0039).

After its commits are gone, the path of an object is recorded only in the list of the exclusion. So
an exclusion reads the lists of earlier runs, and the same glob excludes the same objects.
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
"""Folder of an apply with its list of excluded objects."""
FILES = "excluded.json"
"""File of an apply that names the files of the list."""
LATEST_RUNS = 100
"""Number of runs with exclusions to read paths from, newest first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Candidates divided by globs."""

    globs: Sequence[str]
    included: Sequence[Part]
    excluded: Sequence[Part]
    needing: Sequence[str] = ()
    """Addresses of excluded snapshots, in stores whose snapshots depend on others."""


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
    """Exclude candidates by globs. Refuse a glob without a match, because the objects it was meant
    for would be deleted. ``paths`` has further paths of the candidates."""
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
            f"the list of objects excluded by an earlier run is damaged: {error.message}",
            hint=f"nothing was changed; restore {damaged[0]}, or remove it: objects whose paths "
            "are listed only there are then not excluded by path",
        ) from error
    idle = [glob for glob, count in zip(globs, split.matches, strict=True) if not count]
    if idle:
        raise PlanRefused(
            f"--exclude {idle[0]!r} matches no object of the plan",
            hint="nothing was changed; list addresses and paths with `reclaim show PLAN "
            "--objects`, or drop the option",
            exclude=idle,
        )
    expected, read = _rows(candidates), _rows(split.included) + _rows(split.excluded)
    if expected != read:
        raise IncompleteRead(
            f"the plan lists {expected} objects, but {read} were read for the exclusion",
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
    """Write the names of the files with excluded objects, for exclusions of later runs."""
    storage.put(own.at(FILES), encode([(part, Outcome()) for part in parts]))
    storage.flush([*(part.address for part in parts), own.at(FILES)])


def _find_earlier(store: Store, own: Place, opener: Opener) -> Iterator[Part]:
    """Files listing the objects excluded by earlier runs, in the storage of this apply."""
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
                log.warning(
                    "%s, with the objects excluded by run %s, is missing", part.address, run.id
                )
                continue
            if place.url == own.url:
                yield part
            else:
                copy = own.below("work").at(f"earlier-{new_uid()}.parquet")
                yield write_part(opener(own.url), copy, read_part(storage, part))


def _read_files(run: RunRecord, opener: Opener) -> tuple[Place, Sequence[Part]] | None:
    """Files listing the objects excluded by a run, and their folder; None if its plan is gone."""
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
            "cannot read the objects excluded by run %s; they are excluded only by address: %s",
            run.id,
            error,
        )
    return None


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)

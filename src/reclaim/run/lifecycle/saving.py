"""Results of a finished run of lifecycle rules: its checkpoint, and tables for people to read.

A plan that was not applied, a run that failed, and one that others came before leave none: then the
next run starts from the older checkpoint, which still counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.lifecycle import LifecycleCarryRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, copy_part
from reclaim.engine.uncommitted import CopyRequest
from reclaim.errors import ReclaimError
from reclaim.run.lifecycle.checkpoint import LIFECYCLE_CHECKPOINTS, LifecycleManifest
from reclaim.run.lifecycle.tables import FOLDER, publish_tables
from reclaim.run.plan.plan_document import File, IndexFile, PlanDocument
from reclaim.run.record.checkpoints import store_name, write_manifest
from reclaim.run_record import RecordedRule, SavedManifest
from reclaim.stores.base import Store

log = logging.getLogger(__name__)

CHECKPOINTS, INDEX = "checkpoints", "index"


def leave_results(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    journal: Sequence[Part],
    opener: Opener,
) -> tuple[tuple[RecordedRule, ...], SavedManifest | None]:
    """Publish the tables of a run that has come to its end, and leave its checkpoint.

    Returns its rules at their dates and the checkpoint, for its record. Whatever stops that: the
    run is done all the same, and the next one starts from the older checkpoint.
    """
    section = planned.lifecycle
    assert section is not None
    dates = tuple(
        RecordedRule(rule.rule_id, rule.prefix, rule.branch, rule.date_to_be_deleted)
        for rule in section.rules
    )
    try:
        publish_tables(store, engine, planned, place, opener=opener)
    except ReclaimError as error:
        log.warning("the tables of run %s were not published: %s", planned.run, error)
    try:
        saved = save_lifecycle_checkpoint(
            store, engine, planned, place, journal=journal, opener=opener
        )
    except ReclaimError as error:
        log.warning("run %s leaves no checkpoint: %s", planned.run, error)
        return dates, None
    return dates, saved


def lifecycle_place(store: Store, folder: str) -> Place:
    """A folder of what lifecycle runs leave in a store."""
    return Place(store.storage.url, f"{store.format.prefix}{FOLDER}/{folder}/")


def save_lifecycle_checkpoint(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    journal: Sequence[Part],
    opener: Opener,
) -> SavedManifest | None:
    """Write the checkpoint of a run; the part for its record, or None if it leaves none.

    ``place`` is where the plan is; ``journal`` has what became of its objects.
    """
    section = planned.lifecycle
    if section is None:
        return None
    if not LIFECYCLE_CHECKPOINTS.is_next(store.runs(), section.base, section.barriers):
        return None
    own = lifecycle_place(store, CHECKPOINTS).below(planned.run)
    index = lifecycle_place(store, INDEX).below(planned.run)
    storage = opener(own.url)
    copied = pipelines.copy(
        engine, CopyRequest([file.part for file in section.index], place.url, index)
    ).parts
    ranges = pipelines.copy(
        engine, CopyRequest([file.part for file in section.ranges], place.url, own.below("ranges"))
    ).parts
    carried = engine.carry_matched(
        LifecycleCarryRequest(
            [file.part for file in section.held],
            [file.part for file in planned.files],
            journal,
            place,
            own.below("carried"),
        )
    )
    commits = copy_part(opener(place.url), storage, section.commits.part, own.at("commits.parquet"))
    storage.flush(part.address for part in (*copied, *ranges, *carried, commits))
    manifest = LifecycleManifest(
        run=planned.run,
        store=store_name(store),
        made_at=planned.read_at,
        today=section.today,
        rules=section.rules,
        generation=section.generation,
        barriers=section.barriers,
        # Without what was taken: by what is left it is told when a plan takes too much.
        objects=max(0, section.objects_known - sum(part.rows for part in journal)),
        holders=section.holders,
        branches=section.branches,
        commits=File.of(commits),
        ranges=[File.of(part) for part in ranges],
        carried=[File.of(part) for part in carried],
        index=[*section.known_index, *(IndexFile.of(part) for part in copied)],
    )
    return write_manifest(storage, own, manifest)

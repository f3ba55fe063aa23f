"""Results of a finished run of lifecycle rules: its checkpoint, and tables for people.

An unapplied plan, a failed run, and a run overtaken by another leave no checkpoint. The next run
then starts from the older checkpoint, which stays valid.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CarryRequest, CopyRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, copy_part
from reclaim.errors import ReclaimError
from reclaim.run.lifecycle.tables import publish_tables
from reclaim.run.plan.plan_document import File, PlanDocument
from reclaim.run.record.checkpoints import LifecycleSection
from reclaim.run.record.saving import save_checkpoint
from reclaim.run_record import RecordedRule, SavedManifest
from reclaim.storage import Storage
from reclaim.stores.base import Store

log = logging.getLogger(__name__)


def leave_results(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    journal: Sequence[Part],
    opener: Opener,
) -> tuple[tuple[RecordedRule, ...], SavedManifest | None]:
    """Publish the tables of a finished run, and leave its checkpoint.

    Return its dated rules and the checkpoint, for its record. Errors are logged only: the run is
    finished, and the next run starts from the older checkpoint.
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
        saved = save_lifecycle(store, engine, planned, place, journal=journal, opener=opener)
    except ReclaimError as error:
        log.warning("run %s leaves no checkpoint: %s", planned.run, error)
        return dates, None
    return dates, saved


def save_lifecycle(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    *,
    journal: Sequence[Part],
    opener: Opener,
) -> SavedManifest | None:
    """Write the checkpoint of a run. ``journal`` has the outcomes of its objects."""
    notes = planned.lifecycle
    if notes is None:
        return None

    def write_section(own: Place, storage: Storage) -> LifecycleSection:
        ranges = pipelines.copy(
            engine,
            CopyRequest([file.part for file in notes.ranges], place.url, own.below("reached")),
        ).parts
        carried = pipelines.carry(
            engine,
            CarryRequest(
                store.format,
                [file.part for file in (*notes.held, *planned.files)],
                journal,
                place,
                own.below("carried"),
            ),
        ).parts
        commits = copy_part(
            opener(place.url), storage, notes.commits.part, own.at("commits.parquet")
        )
        return LifecycleSection(
            run=planned.run,
            made_at=planned.started_at,
            generation=notes.generation,
            today=notes.today,
            rules=notes.rules,
            # Without deleted objects. A later plan compares its size with this count.
            objects=max(0, notes.objects_known - sum(part.rows for part in journal)),
            holders=notes.holders,
            branches=notes.branches,
            commits=File.of(commits),
            ranges=[File.of(part) for part in ranges],
            carried=[File.of(part) for part in carried],
        )

    return save_checkpoint(store, engine, planned, place, write_section, opener=opener)

"""Save the checkpoint of a finished run.

An unapplied plan, a failed run, and a run overtaken by another leave no checkpoint. The next run
then starts from the older checkpoint, which stays valid.
"""

from __future__ import annotations

from collections.abc import Callable

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CopyRequest
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.run.plan.plan_document import File, IndexFile, PlanDocument
from reclaim.run.record.checkpoints import (
    CheckpointManifest,
    IndexStep,
    LifecycleSection,
    UncommittedSection,
    checkpoint_place,
    find_checkpoint,
    is_next,
    store_name,
    write_manifest,
)
from reclaim.run_record import SavedManifest
from reclaim.storage import Storage
from reclaim.stores.base import Store

Section = UncommittedSection | LifecycleSection


def save_checkpoint(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    write_section: Callable[[Place, Storage], Section],
    *,
    opener: Opener,
) -> SavedManifest | None:
    """Write the checkpoint of a run. Return its entry for the run record, or None without a
    checkpoint.

    ``place`` is the folder of the plan. ``write_section`` writes the section of its kind; the
    section of the other kind is copied from the checkpoint the run started from.
    """
    notes, runs = planned.incremental, store.runs()
    if notes is None or notes.indexed is None or not is_next(runs, notes.base, notes.barriers):
        return None
    own = checkpoint_place(store, planned.run)
    storage = opener(own.url)
    before = None
    if notes.generation:
        checkpoint = find_checkpoint(runs, storage)
        if isinstance(checkpoint, str):
            return None
        before = checkpoint.manifest
    parts, ranges = (
        pipelines.copy(
            engine, CopyRequest([file.part for file in files], place.url, own.below(folder))
        ).parts
        for files, folder in ((notes.index, "index"), (notes.indexed, "ranges"))
    )
    section = write_section(own, storage)
    step = IndexStep(
        generation=notes.generation,
        parts=[IndexFile.of(part) for part in parts],
        ranges=[File.of(part) for part in ranges],
    )
    manifest = CheckpointManifest(
        run=planned.run,
        store=store_name(store),
        generation=notes.generation,
        barriers=notes.barriers,
        index=[*(before.index if before else ()), step],
        uncommitted=before.uncommitted if before else None,
        lifecycle=before.lifecycle if before else None,
    )
    name = "uncommitted" if isinstance(section, UncommittedSection) else "lifecycle"
    manifest = manifest.model_copy(update={name: section})
    storage.flush(file.address for file in manifest.files() if file.address.startswith(own.prefix))
    return write_manifest(storage, own, manifest)

"""Daily statistics of lifecycle runs for other programs: ``stats/<date>.csv``."""

from __future__ import annotations

import csv
import io
import logging

from reclaim.engine.tasks.deleting import DELETED, MISSING
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.errors import NotFound
from reclaim.model import instant_text
from reclaim.run.apply.applied import Applied
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.stores.base import Store

log = logging.getLogger(__name__)

FOLDER = "_reclaim/lifecycle/stats"
COLUMNS = (
    "run_id",
    "state",
    "finished_at",
    "mode",
    "rules",
    "planned",
    "deleted",
    "quarantined",
    "bytes",
    "missing",
    "dropped",
    "failed",
    "held",
)


def write_statistics(store: Store, planned: PlanDocument, applied: Applied) -> None:
    """Write the row of a run to the file of its day, replacing an earlier row of the run.

    Under the lock of the store, so that no two runs write at once.
    """
    section = planned.lifecycle
    assert section is not None
    outcome = applied.outcome
    row = {
        "run_id": planned.run,
        "state": applied.phase,
        "finished_at": instant_text(store.clock.now()),
        "mode": section.mode,
        "rules": " ".join(sorted({rule.rule_id for rule in section.rules})),
        "planned": planned.candidates,
        "deleted": outcome.counts[DELETED],
        "quarantined": outcome.counts[QUARANTINED],
        "bytes": outcome.only(DELETED, QUARANTINED)[1],
        "missing": outcome.counts[MISSING],
        "dropped": applied.dropped,
        "failed": applied.failed,
        "held": section.held_count,
    }
    address = f"{store.format.prefix}{FOLDER}/{section.today.isoformat()}.csv"
    try:
        before = list(csv.DictReader(io.StringIO(store.storage.get(address).decode())))
    except NotFound:
        before = []
    except (UnicodeDecodeError, csv.Error) as error:
        log.warning("%s is damaged and starts anew: %s", address, error)
        before = []
    others = [earlier for earlier in before if earlier.get("run_id") != planned.run]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows([*others, row])
    store.storage.put(address, text.getvalue().encode())

"""Judge a lifecycle plan again by the current references, and drop addresses from it.

At the dates of the plan. Contents never change, so only newly reachable ranges are read; a commit
whose new entries all match drops nothing.
"""

from __future__ import annotations

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.lifecycle import Rejudged, RejudgeRequest
from reclaim.engine.tasks.parts import Opener, Place, open_storage, read_part
from reclaim.errors import IncompleteRead, PlanRefused
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.run.lifecycle.reach import find_metaranges, find_reach
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation


def rejudge(
    store: Store,
    engine: Engine,
    planned: PlanDocument,
    place: Place,
    seen: Observation,
    now: Decided,
    *,
    own: Place,
    opener: Opener = open_storage,
) -> Rejudged:
    """Return the addresses that leave a plan, by the branches, tags, leases and promises in
    ``seen``.

    ``now`` is the decision on the same observation without a policy. ``place`` is the folder of the
    plan, ``own`` a folder in the same storage for results. The files have the column ``address``
    and are hashed by name, like those of ``Observation.held``: pass both to ``engine.confirm``, and
    add ``addresses`` to the expected count.
    """
    section = planned.lifecycle
    if section is None:
        raise PlanRefused("the plan has no lifecycle rules", hint="make a new plan")
    classes = BranchClasses.of(section.dated_rules)
    reach = find_reach(seen, now, classes)
    rows = read_part(opener(place.url), section.commits.part)
    columns = (rows.column(name).to_pylist() for name in ("id", "bits"))
    planned_bits = dict(zip(*columns, strict=True))
    new_bits = {
        snapshot: bits & ~planned_bits.get(snapshot, 0) for snapshot, bits in reach.bits.items()
    }
    metaranges = find_metaranges(
        seen, reach, {snapshot: bits for snapshot, bits in new_bits.items() if bits}
    )
    if not metaranges.num_rows or not section.rows:
        return Rejudged()
    judged = pipelines.rejudge(
        engine,
        RejudgeRequest(
            store.format,
            classes,
            metaranges,
            [file.part for file in section.ranges],
            [file.part for file in section.rows],
            own,
            seen.protect,
        ),
    )
    pairs = (
        ("metaranges", metaranges.num_rows, judged.metaranges),
        ("ranges", judged.expected, judged.ranges),
    )
    for unit, expected, read in pairs:
        if expected != read:
            raise IncompleteRead(
                f"to judge again, {expected} {unit} were expected, but {read} were read",
                hint="nothing was deleted; apply it again",
            )
    return judged

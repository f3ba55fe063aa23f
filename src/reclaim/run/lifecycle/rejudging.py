"""Judging a lifecycle plan again, as of now: what leaves it before anything is taken.

At the dates of the plan. Contents never change, so only ranges that something reaches now and did
not reach then are read; a commit that only carries what is matched drops nothing.
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
    """The addresses that leave a plan, by branches, tags, leases and promises as ``seen`` now.

    ``now`` decides on the same observation without any policy. ``place`` is where the plan is,
    ``own`` a folder in the same storage for what is written. The files have the column ``address``
    and are hashed by name, as those of ``Observation.held``: give them to ``engine.confirm`` beside
    these, which have what is staged or pending, and add ``addresses`` to what it must read.
    """
    section = planned.lifecycle
    if section is None:
        raise PlanRefused("the plan has no lifecycle rules", hint="plan it again")
    classes = BranchClasses.of(section.dated_rules)
    reach = find_reach(seen, now, classes)
    rows = read_part(opener(place.url), section.commits.part)
    columns = (rows.column(name).to_pylist() for name in ("id", "bits"))
    then = dict(zip(*columns, strict=True))
    more = {one: bits & ~then.get(one, 0) for one, bits in reach.bits.items()}
    metaranges = find_metaranges(seen, reach, {one: bits for one, bits in more.items() if bits})
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
    for what, expected, read in pairs:
        if expected != read:
            raise IncompleteRead(
                f"to judge again, {expected} {what} were expected and {read} were read",
                hint="nothing was deleted; apply it again",
            )
    return judged

"""What somebody can do who can write the folder of a plan: any plan, with all its hashes right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from sqlalchemy import delete, update

from reclaim.catalog.database.schema import plans
from reclaim.engine.tasks.judging import count_kinds
from reclaim.engine.tasks.parts import read_part, write_part
from reclaim.run.plan import plan_file
from reclaim.run.plan.plan_document import File, Group, PlanDocument
from reclaim.run.plan.planning import WrittenPlan
from tests.collect.helpers.world import World

Row = dict[str, Any]


def forget(world: World) -> None:
    """As if the store had not been able to note any plan."""
    with world.repo._workspace.database.write() as connection:
        connection.execute(delete(plans))


def vouch(world: World, planned: PlanDocument) -> None:
    """As if the store had noted this plan."""
    with world.repo._workspace.database.write() as connection:
        connection.execute(
            update(plans).where(plans.c.run_id == planned.run).values(digest=planned.digest)
        )


def forge(
    world: World, plan: WrittenPlan, edit: Callable[[list[Row]], Iterable[Row]], **others: Any
) -> PlanDocument:
    """Rewrite the rows of every file of a plan, and make its hashes and its summary right again."""
    files, going = [], []
    for file in plan.document.files:
        table = read_part(world.storage, file.part)
        forged = pa.Table.from_pylist(list(edit(table.to_pylist())), schema=table.schema)
        files.append(File.of(write_part(world.storage, file.address, forged)))
        going += [
            Group(objects=objects, bytes=size, kind=kind, reason="looks right")
            for kind, (objects, size) in count_kinds(forged).items()
        ]
    changed = {
        "files": files,
        "going": going,
        "candidates": sum(group.objects for group in going),
        "candidate_bytes": sum(group.bytes for group in going),
    }
    return plan_file.write(
        world.storage, plan.place, plan.document.model_copy(update=changed | others)
    )


def naming(addresses: Iterable[str]) -> Callable[[list[Row]], list[Row]]:
    """Rows that name these addresses, with whatever the first row of a file says otherwise."""
    return lambda rows: [rows[0] | {"address": address} for address in sorted(addresses)]

"""A repository with lifecycle rules, planned, applied and compared with the oracle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reclaim.catalog.database.schema import TokenState, staged_entries, staging_tokens
from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import read_part
from reclaim.policy.lifecycle import StoredLifecycle, date_rules, encode_lifecycle, read_lifecycle
from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle
from reclaim.run.plan.plan_document import Lifecycle
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from tests.catalog import raw
from tests.collect.helpers.world import World, opening
from tests.lifecycle.oracle import verdicts

Rules = Mapping[str, Mapping[str, Any]]


def set_rules(world: World, rules: Rules) -> None:
    text = json.dumps(rules)
    stored = StoredLifecycle(read_lifecycle(text), text, world.clock.now(), "tests")
    world.store().store_lifecycle(encode_lifecycle(stored))


def plan_rules(
    world: World,
    rules: Rules,
    *,
    full: bool = False,
    engine: Engine | None = None,
    **options: Any,
) -> WrittenPlan:
    """A plan of lifecycle rules, which are stored first."""
    set_rules(world, rules)
    asked = LifecycleOptions(read_lifecycle(json.dumps(rules)), full=full)
    options.setdefault("allowed_fraction", 1.0)
    return plan_lifecycle(
        world.store(),
        engine or world.engine(),
        asked,
        PlanOptions(margins=world.margins, **options),
        opener=opening(world.storage),
    )


def section(plan: WrittenPlan) -> Lifecycle:
    assert plan.document.lifecycle is not None
    return plan.document.lifecycle


def held(world: World, plan: WrittenPlan) -> dict[str, list[str]]:
    """What is held, and by what."""
    rows = [read_part(world.storage, file.part) for file in section(plan).held]
    return {row["address"]: row["held_by"] for table in rows for row in table.to_pylist()}


def staged(world: World) -> set[str]:
    repo = world.other()
    in_use = {
        row.id
        for row in raw.rows(repo, staging_tokens)
        if row.state in (TokenState.OPEN, TokenState.SEALED)
    }
    return {row.address for row in raw.rows(repo, staged_entries) if row.token_id in in_use}


def expected(world: World, rules: Rules) -> tuple[set[str], set[str]]:
    """What goes and what is held, by the oracle; of what is there."""
    dated = date_rules(read_lifecycle(json.dumps(rules)), world.clock.now().date())
    found = verdicts(world, dated)
    there = world.there()
    goes = {address for address, verdict in found.items() if verdict.goes} & there
    holds = {
        address for address, verdict in found.items() if verdict.matched and verdict.held_by
    } & there
    return goes - staged(world), holds

"""Random histories with random rules and runs in between, for either engine."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from reclaim.engine.base import Engine
from reclaim.errors import ReclaimError
from reclaim.run.plan.planning import WrittenPlan
from reclaim.stores.observation import Margins
from tests.collect.helpers.histories import MORE_KINDS, NOT_NOW, PATHS, do
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.ruled import Rules, expected, held, plan_rules, section

KINDS = (*(kind for kind in MORE_KINDS if kind != "wait"), "move", "commit", "rename", "copied")
PREFIXES = ("", "a", "a/", "b/", "c", "nothing/")


@dataclass
class Seen:
    """How much the runs of some histories have done."""

    went: int = 0
    held: int = 0
    carried: int = 0
    """Addresses that went after they had been held."""
    incremental: int = 0
    unread: int = 0
    """Incremental runs that read fewer metaranges or index parts than a full one."""


class Stopped(Exception):
    """A run that is cut off."""


def live_by_rules(
    world: World,
    choice: random.Random,
    seen: Seen,
    *,
    rounds: int,
    engine: Engine | None = None,
) -> None:
    """Several instances at work, rules that change, and runs of all sorts; each plan is compared
    with the oracle, and each incremental one with a full one."""
    world.margins = Margins(objects=timedelta(0))
    were_held: set[str] = set()
    rules = random_rules(world, choice)
    for turn in range(rounds):
        with world.opened() as catalog:
            repo = catalog.repository(NAME)
            write(repo, choice, turn)
            for number in range(choice.randrange(2, 7)):
                with suppress(*NOT_NOW):
                    do_something(world, repo, choice, f"{turn}-{number}")
        world.clock.advance(hours=choice.choice([1, 20, 30, 50, 80]))
        if choice.random() < 0.35:
            rules = random_rules(world, choice)
        run(world, rules, seen, were_held, choice, engine=engine)
    # Whatever else happened, in the end something goes that was held.
    repo = world.other()
    for tag in repo.tags():
        repo.delete_tag(tag.name)
    world.clock.advance(days=3)
    run(world, {"last": {"prefix": "", "days": 2}}, seen, were_held, None, engine=engine)


def run(
    world: World,
    rules: Rules,
    seen: Seen,
    were_held: set[str],
    choice: random.Random | None,
    *,
    engine: Engine | None = None,
) -> None:
    """A run, which is applied unless somebody chooses something else."""
    plan = compare(world, rules, seen, engine=engine)
    were_held |= set(held(world, plan))
    before = world.there()
    if choice is None:
        world.apply(plan)
    else:
        end(world, plan, choice)
    gone = before - world.there()
    assert gone <= set(world.candidates(plan))
    seen.went += len(gone)
    seen.carried += len(gone & were_held)


def compare(world: World, rules: Rules, seen: Seen, *, engine: Engine | None = None) -> WrittenPlan:
    """A plan that takes and holds what the oracle says, and what a full one does."""
    goes, holds = expected(world, rules)
    plan = plan_rules(world, rules, engine=engine)
    assert set(world.candidates(plan)) == goes
    if section(plan).mode == "full":
        assert holds <= set(held(world, plan))
    else:
        seen.incremental += 1
        full = plan_rules(world, rules, full=True)
        assert set(world.candidates(full)) == goes
        assert holds <= set(held(world, full))
        # An address that was held and whose bytes are gone is in neither.
        assert set(held(world, full)) & world.there() <= set(held(world, plan))
        seen.unread += section(plan).bytes_read < section(full).bytes_read
    seen.held += len(holds)
    return plan


def end(world: World, plan: WrittenPlan, choice: random.Random) -> None:
    """Apply a plan, or part of it, or not at all."""
    how = choice.random()
    if how < 0.2:
        return
    if how < 0.3:
        name = choice.choice(["sweep data", "confirm", "intersect"])

        def stop(step: str) -> None:
            if step == name:
                raise Stopped

        with suppress(Stopped, ReclaimError):
            world.apply(plan, step=stop)
        if choice.random() < 0.5:
            world.apply(plan)
        return
    if how < 0.5:
        with world.opened() as catalog:
            for number in range(3):
                with suppress(*NOT_NOW):
                    do_something(world, catalog.repository(NAME), choice, f"late-{number}")
    world.apply(plan)


def write(repo: Any, choice: random.Random, turn: int) -> None:
    """Something new on a branch or two, so that there is something to lose."""
    for name in {choice.choice([ref.name for ref in repo.branches()]), "main"}:
        with suppress(*NOT_NOW):
            for path in choice.sample(PATHS, k=3):
                repo.branch(name).put(path, f"{name} {path} {turn}".encode())
            repo.branch(name).commit(f"written {turn}")
    with suppress(*NOT_NOW):
        if choice.random() < 0.4:
            repo.create_tag(f"held-{turn}", "main")
        elif choice.random() < 0.6:
            for tag in repo.tags():
                repo.delete_tag(tag.name)


def do_something(world: World, repo: Any, choice: random.Random, name: str) -> None:
    kind = choice.choice(KINDS)
    names = sorted(ref.name for ref in repo.branches())
    branch = repo.branch(choice.choice(names))
    if kind in ("move", "rename"):
        branch.move(choice.choice(PATHS), choice.choice([*PATHS, f"moved/{name}"]))
    elif kind == "copied":
        source, target = choice.choice(PATHS), choice.choice(PATHS)
        branch.copy(source, target)
        branch.commit(name)
    else:
        do(world, repo, (kind, choice.randrange(100), choice.randrange(100)), name)


def random_rules(world: World, choice: random.Random) -> Rules:
    """Up to three rules, some of them for branches that there are, or are not."""
    names = [ref.name for ref in world.other().branches()]
    rules: dict[str, dict[str, Any]] = {}
    for number in range(choice.randrange(1, 4)):
        rule: dict[str, Any] = {"prefix": choice.choice(PREFIXES), "enabled": choice.random() < 0.9}
        if choice.random() < 0.75:
            rule["days"] = choice.randrange(1, 5)
        if choice.random() < 0.6 or "days" not in rule:
            some = choice.sample([*names, "not-there"], k=min(2, len(names)))
            rule["branch_days"] = {name: choice.randrange(1, 5) for name in some}
        rules[f"rule{number}"] = rule
    rules["rule0"]["enabled"] = True
    return rules

"""Random histories with both kinds of runs that leave checkpoints in between."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from reclaim.run.record.checkpoints import Mode
from reclaim.stores.observation import Margins
from tests.collect.helpers.histories import NOT_NOW
from tests.collect.helpers.world import NAME, World
from tests.lifecycle import random_rules
from tests.lifecycle.ruled import Rules, staged


@dataclass
class Seen:
    """How much the runs of some histories have done."""

    rules: random_rules.Seen = field(default_factory=random_rules.Seen)
    uncommitted: int = 0
    """Incremental runs on uncommitted data."""
    taken: int = 0
    unread: int = 0
    """Runs that had no range to read."""

    @property
    def incremental(self) -> int:
        return self.uncommitted + self.rules.incremental

    @property
    def went(self) -> int:
        return self.rules.went


def live_with_both(world: World, choice: random.Random, seen: Seen, *, rounds: int) -> None:
    """Several instances at work, and in each round runs of either kind in any order; each plan is
    compared with a full one, and that of rules with the oracle."""
    world.margins = Margins(objects=timedelta(0))
    were_held: set[str] = set()
    rules = random_rules.random_rules(world, choice)
    for turn in range(rounds):
        with world.opened() as catalog:
            repo = catalog.repository(NAME)
            random_rules.write(repo, choice, turn)
            for number in range(choice.randrange(2, 7)):
                with suppress(*NOT_NOW):
                    random_rules.do_something(world, repo, choice, f"{turn}-{number}")
        world.clock.advance(hours=choice.choice([1, 20, 30, 50, 80]))
        if choice.random() < 0.35:
            rules = random_rules.random_rules(world, choice)
        for kind in choice.choices("ur", k=choice.randrange(1, 4)):
            _run(world, kind, rules, seen, were_held, choice)
            world.clock.advance(hours=choice.choice([1, 30]))
    # Whatever else happened, in the end something goes.
    repo = world.other()
    for tag in repo.tags():
        repo.delete_tag(tag.name)
    with world.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("last", b"never committed")
        main.reset()
    world.clock.advance(days=3)
    for kind in "urur":
        _run(world, kind, {"last": {"prefix": "", "days": 2}}, seen, were_held, None)


def _run(
    world: World,
    kind: str,
    rules: Rules,
    seen: Seen,
    were_held: set[str],
    choice: random.Random | None,
) -> None:
    if kind == "r":
        random_rules.run(world, rules, seen.rules, were_held, choice)
        return
    before, in_use = world.there(), world.needed() | staged(world)
    plan = world.uncommitted(allowed_fraction=1.0)
    notes = plan.document.uncommitted
    assert notes is not None
    planned = set(world.candidates(plan)) & before
    assert not planned & in_use
    full = world.uncommitted(Mode.FULL, allowed_fraction=1.0)
    assert planned == set(world.candidates(full)) & before
    if choice is not None and choice.random() < 0.2:
        return
    world.apply(plan)
    assert world.needed() & before <= world.there(), "something live is gone"
    seen.uncommitted += notes.mode == Mode.INCREMENTAL
    seen.taken += len(planned - world.there())
    seen.unread += not notes.ranges_read

"""The operations that are scheduled. A new one is an entry of ``OPERATIONS``."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import metadata
from reclaim.policy import Policy, Rules
from reclaim.policy.lifecycle import StoredLifecycle, encode_lifecycle, read_lifecycle
from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle
from reclaim.run.plan.planning import PlanOptions
from reclaim.run.record.checkpoints import Mode
from reclaim.safety import SAFETY
from reclaim.stores.catalog import CatalogStore
from reclaim.testing import FakeClock
from tests.collect.helpers.world import NAME, World, opening
from tests.schedules.forgetting import forgetting
from tests.schedules.past import Known, Past
from tests.support import expiring
from tests.support.scheduler import current_task

BRANCH = "work"
MARGIN = SAFETY.reap_margin + timedelta(minutes=1)


@dataclass(frozen=True)
class Instance:
    """One opened catalog, as one task has it, and the names of what there is."""

    past: Past
    catalog: Catalog

    @property
    def known(self) -> Known:
        return self.past.known

    @property
    def clock(self) -> FakeClock:
        clock = self.catalog._clock
        assert isinstance(clock, FakeClock)
        return clock

    @property
    def world(self) -> World:
        """The world by this instance's clock."""
        world, backend = copy(self.past.world), copy(self.past.backend)
        world.backend, backend.clock = backend, self.clock
        return world

    @property
    def repo(self) -> Repository:
        return self.catalog._repository(self.past.repo_row)

    @property
    def work(self) -> Branch:
        return self.repo.branch(BRANCH)

    def store(self) -> CatalogStore:
        return CatalogStore(self.catalog.workspace(NAME))


Operation = Callable[[Instance], Any]


def collect(at: Instance) -> None:
    """Plan and apply, deleting. As on the command line, an apply knows only where the plan is."""
    with forgetting() as remembered:
        plan = at.world.plan(allowed_fraction=1.0, store=at.store(), storage=at.catalog.storage)
        remembered.append(plan.place)
    at.world.apply(plan, store=at.store(), storage=at.catalog.storage)


def uncommitted(at: Instance) -> None:
    """A run on uncommitted data, from the checkpoint that there is."""
    store, world = at.store(), at.world
    plan = world.uncommitted(
        Mode.INCREMENTAL, allowed_fraction=1.0, store=store, storage=at.catalog.storage
    )
    assert plan.document.uncommitted is not None
    assert plan.document.uncommitted.mode == Mode.INCREMENTAL, plan.document.uncommitted.why
    world.apply(plan, store=store, storage=at.catalog.storage)


def uncommitted_later(at: Instance) -> None:
    """The same a minute later, when what was written before is not young any more."""
    at.clock.advance(minutes=1)
    uncommitted(at)


def late_uncommitted(at: Instance) -> None:
    """The same, when whoever stands still counts as dead."""
    at.clock.advance(minutes=31)
    uncommitted(at)


def undo(at: Instance) -> None:
    run = at.known.quarantined_run
    at.world.undo(run, store=at.store(), storage=at.catalog.storage)


def expire(at: Instance) -> None:
    """Plan and apply an edit of the history, which knows only where the plan is."""
    with forgetting() as remembered:
        plan = expiring.plan_expire(at.store(), Policy(default=Rules(keep_last=1)))
        remembered.append(plan.place)
    expiring.apply_expire(at.store(), plan)


def lease(at: Instance) -> None:
    """Take a lease on a commit that nothing else reaches."""
    at.repo.take_lease(at.known.dead, holder="reader", length=timedelta(hours=2))


def reap(at: Instance) -> None:
    """A round of the reaper, when the margin of all that is condemned by then is over."""
    at.clock.advance(MARGIN)
    at.catalog.reap()


def reap_from_a_copy(at: Instance) -> None:
    """Somebody works on a copy of the database, where the storage is that of the original."""
    task = current_task()
    assert task is not None
    task.see("a copy", reads=list(metadata.tables))
    with at.past.copied_database(at.catalog.storage) as copy:
        copy._repository(at.past.repo_row).branch(BRANCH).delete("n")
        at.clock.advance(MARGIN)
        copy.reap()


def recreate_branch(at: Instance) -> None:
    at.repo.delete_branch(BRANCH)
    at.repo.create_branch(BRANCH, "main")


def late_collect(at: Instance) -> None:
    """Plan and apply, when whoever stands still counts as dead."""
    at.clock.advance(minutes=31)
    collect(at)


RULED = {BRANCH: 1, "back": 1, "other": 1}
LIFECYCLE = {
    "old": {"prefix": "c", "branch_days": RULED},
    "linked": {"prefix": "l", "branch_days": RULED},
}
"""What is at ``c`` and ``l`` of some branches goes; any other branch, tag or lease holds it."""
DAYS_LATER = 3


def lifecycle(at: Instance) -> None:
    """Plan and apply by lifecycle rules, at dates by which their time has come."""
    text = json.dumps(LIFECYCLE)
    policy = read_lifecycle(text)
    store, world, storage = at.store(), at.past.world, at.catalog.storage
    store.store_lifecycle(
        encode_lifecycle(StoredLifecycle(policy, text, at.clock.now(), "a schedule"))
    )
    options = PlanOptions(margins=world.margins, allowed_fraction=1.0)
    plan = plan_lifecycle(
        store,
        world.engine(storage=storage),
        LifecycleOptions(policy, full=True),
        options,
        opener=opening(storage),
    )
    world.apply(plan, store=store, storage=storage)


def late_lifecycle(at: Instance) -> None:
    """The same, when whoever stands still has lost its lock."""
    at.clock.advance(minutes=31)
    lifecycle(at)


def hold_others(at: Instance) -> None:
    """A tag that holds one of the other objects that rules match, and a copy that holds one."""
    at.repo.create_tag("kept", at.known.other)
    at.repo.branch("other").copy("c2", "kept")


def link_and_commit(at: Instance) -> None:
    at.work.link_physical_address("l", at.known.upload)
    at.work.commit("linked")


OPERATIONS: dict[str, Operation] = {
    "put": lambda at: at.work.put("n", b"put n"),
    "delete": lambda at: at.work.delete("n"),
    "copy": lambda at: at.work.copy("n", "copied"),
    "copy of the dead": lambda at: at.work.copy("dead", "kept", source_ref=f"{at.known.dead}~1"),
    "move": lambda at: at.work.move("n", "moved"),
    "commit": lambda at: at.work.commit("commit"),
    "merge": lambda at: at.repo.branch("main").merge(BRANCH),
    "revert": lambda at: at.repo.branch("side").revert(at.known.dead),
    "reset path": lambda at: at.work.reset_path("n"),
    "reset": lambda at: at.work.reset(),
    "delete branch": lambda at: at.repo.delete_branch(BRANCH),
    "link": lambda at: at.work.link_physical_address("l", at.known.upload),
    "clean": lambda at: at.repo.clean(),
    "reap": reap,
    "expire": expire,
    "collect": collect,
    "undo": undo,
    "lease": lease,
}
"""What every pair is made of."""

MORE_OPERATIONS: dict[str, Operation] = {
    "move elsewhere": lambda at: at.work.move("n", "elsewhere"),
    "recreate branch": recreate_branch,
    "reap from a copy": reap_from_a_copy,
    "late collect": late_collect,
    "uncommitted": uncommitted,
    "uncommitted a minute later": uncommitted_later,
    "late uncommitted": late_uncommitted,
    "stage outside": lambda at: at.work.stage("e", at.known.outside.as_uri()),
    "move outside": lambda at: at.work.move("e", "f"),
    "lifecycle": lifecycle,
    "late lifecycle": late_lifecycle,
    "copy of the old": lambda at: at.work.copy("c", "kept"),
    "move of the old": lambda at: at.work.move("c", "kept"),
    "archive": lambda at: at.repo.create_branch("archive", at.known.committed),
    "tag": lambda at: at.repo.create_tag("v1", at.known.committed),
    "lease of the old": lambda at: at.repo.take_lease(
        at.known.committed, holder="reader", length=timedelta(hours=2)
    ),
    "reset to the old": lambda at: at.repo.branch("side").reset_to(at.known.committed),
    "revert to the old": lambda at: at.repo.branch("side").revert(at.known.taken_back),
    "link and commit": link_and_commit,
    "hold others": hold_others,
}
"""What some named races need besides."""

EVERY_OPERATION = OPERATIONS | MORE_OPERATIONS
RUNS = {
    "collect",
    "late collect",
    "uncommitted",
    "uncommitted a minute later",
    "late uncommitted",
    "lifecycle",
    "late lifecycle",
    "undo",
}
"""Operations that take hundreds of steps."""
CLEANERS = {"clean", "reap"}
"""Operations that begin with rows that wait for the cleaner."""

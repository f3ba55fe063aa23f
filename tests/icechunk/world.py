"""Plans of real repositories, and what the library does to a copy of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import open_storage, read_part
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from tests.icechunk.repositories import FOLDERS, WrittenRepository

DAY = timedelta(days=1)


def plan(
    written: WrittenRepository, step: Callable[[str], None] = lambda _step: None, **options: Any
) -> WrittenPlan:
    """A plan for what is older than a day."""
    store = IcechunkStore(str(written.folder))
    asked = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1, **options)
    return make_plan(store, LocalEngine(step=step), asked)


def candidates(made: WrittenPlan) -> dict[str, set[str]]:
    """The names of the objects that would go, by folder."""
    found: dict[str, set[str]] = {folder: set() for folder in FOLDERS}
    storage = open_storage(made.place.url)
    for file in made.document.files:
        for address in read_part(storage, file.part).column("address").to_pylist():
            _, folder, name = address.split("/")
            found[folder].add(name)
    return found


@contextmanager
def copied(written: WrittenRepository) -> Iterator[WrittenRepository]:
    """A copy of a repository, with the same times."""
    folder = Path(f"{written.folder}-copy")
    shutil.copytree(written.folder, folder)
    try:
        yield WrittenRepository(folder, None).reopened()
    finally:
        shutil.rmtree(folder)


def collected_by_library(written: WrittenRepository) -> dict[str, set[str]]:
    """The names of the objects that the library deletes that are older than a day, by folder."""
    with copied(written) as copy:
        before = copy.objects()
        copy.repository.garbage_collect(datetime.now(UTC) - DAY)
        after = copy.objects()
    return {folder: before[folder] - after[folder] for folder in FOLDERS}


def bury(written: WrittenRepository) -> list[str]:
    """A branch with two snapshots that nothing reaches any more; all is old."""
    written.write(1)
    written.branch("side", written.tip())
    dead = [written.write(value, branch="side") for value in (2, 3)]
    written.repository.delete_branch("side")
    written.write(4)
    written.age()
    return dead


def build_randomly(written: WrittenRepository, generator: Random) -> None:
    """Overwrites, parts, groups, branches, tags, resets, an expiration; all is old then."""
    repository = written.repository
    for number in range(12):
        branch = generator.choice(sorted(repository.list_branches()))
        tip = written.tip(branch)
        action = generator.choice(["write", "write", "part", "group", "branch", "reset", "tag"])
        if action == "write":
            written.write(number, generator.choice("ab"), branch=branch)
        elif action == "part":
            written.write(number, "c", branch=branch)
            with written.session(branch) as group:
                group["c"][0:2] = number + 100
        elif action == "group":
            with written.session(branch) as group:
                group.require_group(f"g{number}")
        elif action == "branch":
            written.branch(f"b{number}", tip)
        elif action == "reset":
            above = [info.id for info in repository.ancestry(branch=branch)]
            repository.reset_branch(branch, generator.choice(above))
        else:
            repository.create_tag(f"t{number}", tip)
    ages = sorted(info.written_at for info in repository.ancestry(branch="main"))
    repository.expire_snapshots(ages[len(ages) // 2])
    written.age()

"""Plans of real repositories, and what the library does to a copy of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reclaim.engine.tasks.parts import open_storage, read_part
from reclaim.run.plan import Plan, PlanOptions, make_plan
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from reclaim.testing.engine import OracleEngine
from tests.icechunk.repositories import FOLDERS, WrittenRepository

DAY = timedelta(days=1)


def plan(
    written: WrittenRepository, step: Callable[[str], None] = lambda _step: None, **options: Any
) -> Plan:
    """A plan for what is older than a day."""
    store = IcechunkStore(str(written.folder))
    asked = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1, **options)
    return make_plan(store, OracleEngine(step=step), asked)


def candidates(made: Plan) -> dict[str, set[str]]:
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

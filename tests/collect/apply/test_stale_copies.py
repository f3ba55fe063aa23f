"""A copy of the database collects days later what the original has written since."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog, Commit, Repository
from reclaim.catalog.refs import committing
from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import AnotherDatabase, Refused, StorageAhead
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.storage import Storage
from reclaim.testing import FakeClock
from tests.collect.helpers.copies import Copy
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import NAME, Files, Interrupting, Past, World, bury, opening, whole
from tests.conftest import Backend
from tests.support.dying import Died
from tests.support.servers import PostgreSQL


class Original:
    """An instance of the original that has a partition open, and a copy of its database."""

    def __init__(self, world: World, folder: Path, postgres: PostgreSQL | None = None) -> None:
        self.world = world
        self.folder = folder
        self.past: Past = bury(world)
        world.backend.close()
        self.catalog: Catalog = world.opened()
        self.repo: Repository = self.catalog.repository(NAME)
        self.repo.branch("main").put("before", b"before")
        world.repo = self.repo
        self.copy = Copy(world, folder, postgres)

    def refuses(self, error: type[Refused], *, shows: dict[str, Files]) -> None:
        """Two days later the copy may not collect, and all of the original can be read."""
        self.world.age()
        assert type(self.copy.collect()) is error
        self.reads(shows)

    def reads(self, shows: dict[str, Files]) -> None:
        repo = self.world.other()
        for ref, files in shows.items():
            assert files.items() <= whole(repo, ref).items()
        self.world.check()


@pytest.fixture
def original(local: World, tmp_path: Path) -> Iterator[Original]:
    made = Original(local, tmp_path)
    yield made
    made.copy.catalog.close()


BEFORE = {"before": b"before"}
NEW = {"new": b"new"}


def commit(original: Original) -> dict[str, Files]:
    original.repo.branch("main").put("new", b"new")
    return {original.repo.branch("main").commit("new").id: BEFORE | NEW}


def merge(original: Original) -> dict[str, Files]:
    original.repo.branch("main").reset()
    return {original.repo.branch("main").merge("work", message="merged").id: {}}


def tag(original: Original) -> dict[str, Files]:
    past = original.past
    original.repo.create_tag("v1", past.second)
    return {"v1": past.files[past.second]}


def stage(original: Original) -> dict[str, Files]:
    original.repo.branch("main").put("new", b"new")
    return {"main": BEFORE | NEW}


def stage_and_idle(original: Original) -> dict[str, Files]:
    """What is staged within a minute of the last epoch, by an instance that lives on."""
    original.repo.branch("main").put("new", b"new")
    for _ in range(3):
        original.world.clock.advance(minutes=1)
        original.catalog._partitions.renew()
    return {"main": BEFORE | NEW}


def stage_for_minutes(original: Original) -> dict[str, Files]:
    original.repo.branch("main").put("new", b"new")
    original.world.clock.advance(seconds=61)
    original.repo.branch("main").put("later", b"later")
    return {"main": BEFORE | NEW | {"later": b"later"}}


@pytest.mark.parametrize("change", [commit, tag, stage], ids=lambda change: change.__name__)
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "abandoned"])
def test_a_copy_may_not_collect(
    original: Original, change: Callable[[Original], dict[str, Files]], closed: bool
) -> None:
    """It is not the database that the storage names as its home, whatever left a trace."""
    shows = change(original)
    traced = change is commit or closed
    if closed:
        original.catalog.close()
    original.refuses(StorageAhead if traced else AnotherDatabase, shows=shows)


def test_a_copy_may_not_plan(original: Original) -> None:
    with refused(original.world, AnotherDatabase, 6):
        original.world.plan(store=original.copy.store())


def test_a_copy_may_not_apply_undo_or_purge(original: Original) -> None:
    """A plan of the original, and a run of it that can be undone."""
    world = original.world
    done = world.apply(world.plan(), removal=MoveToQuarantine())
    plan = world.plan()
    copy = Copy(world, original.folder / "later")
    for work in (
        lambda: world.apply(plan, store=copy.store()),
        lambda: world.undo(done.run, store=copy.store()),
        lambda: world.purge(timedelta(0), store=copy.store()),
    ):
        with refused(world, AnotherDatabase, 6):
            work()
    copy.catalog.close()


@pytest.mark.parametrize(
    ("change", "closed"),
    [
        (commit, True),
        (commit, False),
        (stage, True),
        (stage_for_minutes, False),
        (stage_and_idle, False),
    ],
    ids=[
        "commit, closed",
        "commit, abandoned",
        "stage, closed",
        "stage for minutes, abandoned",
        "stage and idle",
    ],
)
def test_what_the_original_wrote_is_in_the_storage(
    original: Original, change: Callable[[Original], dict[str, Files]], closed: bool
) -> None:
    """Without the identity: the epochs alone tell the copy that it is behind."""
    original.copy.become_home()
    shows = change(original)
    if closed:
        original.catalog.close()
    original.refuses(StorageAhead, shows=shows)


def test_a_copy_on_a_server(tmp_path: Path, clock: FakeClock, postgres: PostgreSQL) -> None:
    backend = Backend(
        "server",
        postgres.new_database(),
        (tmp_path / "objects").as_uri(),
        clock,
        postgres=postgres,
    )
    original = Original(World.make(backend), tmp_path, postgres)
    assert type(original.copy.collect()) is AnotherDatabase
    original.copy.become_home()
    original.refuses(StorageAhead, shows=commit(original))
    original.copy.catalog.close()
    backend.close()


def test_a_copy_that_counted_on_sees_what_the_original_counted(original: Original) -> None:
    """The newest epoch is the copy's own; an older one tells of the original."""
    original.copy.become_home()
    copied = original.copy.catalog.repository(NAME).branch("work")
    for n in range(3):
        copied.put("copied", str(n).encode())
        copied.commit("in the copy")
    shows = commit(original)
    original.refuses(StorageAhead, shows=shows)


@pytest.mark.parametrize("change", ["commit", "merge", "revert"])
def test_in_flight_while_the_database_is_copied(local: World, tmp_path: Path, change: str) -> None:
    """The copy has counted the epoch too, and the original dies as soon as it has landed."""
    bury(local)
    setting_up = local.opened()
    work = setting_up.repository(NAME).branch("work")
    work.put("new", b"new")
    work.commit("new")
    local.clock.advance(minutes=1)
    main = setting_up.repository(NAME).branch("main")
    main.put("a", b"changed")
    if change != "commit":
        main.commit("changed")
    setting_up.close()
    copies: list[Copy] = []

    def copy() -> None:
        copies.append(Copy(local, tmp_path))
        copies[0].become_home()

    writer = local.other(lambda storage: Interrupting(storage, "/_reclaim/meta/", copy))
    branch = writer.branch("main")
    if change == "commit":
        landed = branch.commit("in flight")
    elif change == "merge":
        landed = branch.merge("work")
    else:
        landed = branch.revert("main")
    shows = whole(writer, landed.id)
    local.age()
    assert copies[0].collect() is None
    assert whole(local.other(), landed.id) == shows
    local.check()
    copies[0].catalog.close()


def test_a_commit_that_died_is_collected_once_its_changes_have_landed(local: World) -> None:
    """It keeps its partition only until then."""
    bury(local)
    dying = local.opened(lambda storage: Interrupting(storage, "/_reclaim/meta/", die))
    dying.repository(NAME).branch("work").put("new", b"new")
    with pytest.raises(ZeroDivisionError):
        dying.repository(NAME).branch("work").commit("dies")
    local.age()
    plan = local.plan()
    local.apply(plan)
    kept = local.needed()
    assert not kept & set(local.candidates(plan))
    local.other().branch("work").commit("lives")
    assert whole(local.other(), "work")["new"] == b"new"
    local.quiet()
    assert kept - local.there()


def die() -> None:
    raise ZeroDivisionError


def test_an_empty_commit_that_takes_what_another_sealed(local: World, tmp_path: Path) -> None:
    """It had nothing to announce when it began; then it writes what a commit left that died."""
    bury(local)
    copied: list[Copy] = []

    def copy() -> None:
        copied.append(Copy(local, tmp_path))
        copied[0].become_home()

    def die() -> None:
        raise ZeroDivisionError

    def leave_sealed() -> None:
        dying = local.other(lambda storage: Interrupting(storage, "/_reclaim/meta/", die))
        dying.branch("main").put("new", b"new")
        with pytest.raises(ZeroDivisionError):
            dying.branch("main").commit("dies")

    repo = local.other(lambda storage: Interrupting(storage, "/_reclaim/meta/", copy))
    land = committing.land
    with pytest.MonkeyPatch.context() as patch:

        def land_late(*args: Any) -> Commit:
            patch.setattr(committing, "land", land)
            leave_sealed()
            return land(*args)

        patch.setattr(committing, "land", land_late)
        landed = repo.branch("main").commit("empty", allow_empty=True)
    shows = whole(repo, landed.id)
    assert shows["new"] == b"new"
    local.age()
    copied[0].collect()
    assert whole(local.other(), landed.id) == shows
    copied[0].catalog.close()


def test_an_undo_in_a_copy_of_everything_writes_nothing_into_the_original(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the run names the original's folder: database and storage were copied."""
    past = bury(local)
    plan = local.plan()

    def died(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note", died)
        with pytest.raises(Died):
            local.apply(plan, removal=MoveToQuarantine(timedelta(days=30)))
    local.clock.advance(minutes=17)
    local.backend.close()
    source = Path(local.backend.location)
    folder = source.parent / "whole copy"
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    before = {file for file in (source / "objects").rglob("*") if file.is_file()}
    backend = Backend("embedded", str(folder), None, local.clock)
    catalog = backend.open()
    catalog.home.register()
    copy = World(backend, catalog.repository(NAME))

    def opener(url: str) -> Storage:
        own = copy.storage if url.startswith(copy.storage.url) else local.storage
        return opening(own)(url)

    engine = LocalEngine(opener, clock=local.clock)
    run = plan.document.run
    assert undo_run(copy.store(), engine, run, opener=opener).snapshots == 2
    assert whole(copy.other(), past.second) == past.files[past.second]
    backend.close()
    assert {file for file in (source / "objects").rglob("*") if file.is_file()} == before
    local.repo = local.other()
    assert local.undo(run).snapshots == 2
    assert whole(local.other(), past.second) == past.files[past.second]

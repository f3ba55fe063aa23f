"""Plans, against what the library collects from a copy of the same repository."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import icechunk
import pyarrow as pa
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import open_storage, read_part
from reclaim.errors import Conflict, Corrupt, NotFound, ReclaimError, Refused, UnknownVersion
from reclaim.model import StoredObject
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.plan.snapshot_reasons import TOO_YOUNG
from reclaim.storage import Storage
from reclaim.stores.icechunk.envelope import FileType
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins, Observation, ObserveRequest
from reclaim.testing.storage import StorageWrapper
from tests.cli.conftest import CommandLine, bare, plain
from tests.icechunk.later_version import with_fields
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository
from tests.icechunk.world import (
    DAY,
    build_randomly,
    bury,
    candidates,
    collected_by_library,
    plan,
)

__all__ = ["bare", "plain"]

spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


def test_the_plan_is_what_the_library_collects(written: WrittenRepository) -> None:
    dead = bury(written)
    made = plan(written)
    going = candidates(made)
    assert going == collected_by_library(written)
    assert going["snapshots"] == going["transactions"] == set(dead)
    assert {folder: len(names) for folder, names in going.items()} == {
        "snapshots": 2,
        "transactions": 2,
        "manifests": 2,
        "chunks": 8,
    }
    assert (made.document.dead, made.document.live) == (2, 3)


@pytest.mark.parametrize("seed", range(3))
def test_random_repositories(written: WrittenRepository, seed: int) -> None:
    build_randomly(written, Random(seed))
    assert candidates(plan(written)) == collected_by_library(written)


class CountsReads(StorageWrapper):
    """Knows what was read, and how often."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.reads: Counter[str] = Counter()

    def get(self, address: str) -> bytes:
        self.reads[address] += 1
        return super().get(address)


def test_nothing_is_read_twice(written: WrittenRepository) -> None:
    """Also not to know the history first, and then what its snapshots need."""
    bury(written)
    storage = CountsReads(open_storage(written.folder.parent.as_uri()))
    store = IcechunkStore(str(written.folder), storage=storage)
    options = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1)
    make_plan(store, LocalEngine(lambda _url: storage), options)
    of_commits = ("/snapshots/", "/manifests/")
    reads = {one: n for one, n in storage.reads.items() if any(at in one for at in of_commits)}
    assert len(reads) >= 9
    assert set(reads.values()) == {1}


def reasons(made: WrittenPlan) -> dict[str, list[str]]:
    """Why each snapshot stays or goes."""
    rows = read_part(open_storage(made.place.url), made.document.snapshots.part)
    return {row["id"]: row["reasons"] for row in rows.select(["id", "reasons"]).to_pylist()}


def test_what_is_young_stays(written: WrittenRepository, spec: int) -> None:
    first, second = bury(written)
    written.age(excluding={second})
    made = plan(written)
    assert not any(candidates(made).values())
    assert made.document.dead == 0
    assert made.document.too_young is not None
    assert made.document.too_young.snapshots == 1
    said = reasons(made)
    assert TOO_YOUNG in said[first]
    assert TOO_YOUNG in said[second]
    # The library takes its ancestors, and in spec 1 also what the young one uses.
    theirs = collected_by_library(written)
    assert theirs["snapshots"] == {first}
    assert bool(theirs["chunks"]) == bool(theirs["manifests"])
    assert len(theirs["chunks"]) == {1: 8, 2: 4}[spec]


def test_a_commit_that_was_not_finished(written: WrittenRepository, tmp_path: Path) -> None:
    """Its snapshot is in no history. It keeps what it uses as long as it is young."""
    written.write(1)
    shutil.copytree(written.folder, tmp_path / "before")
    written.branch("side", written.tip())
    unfinished = written.write(2, branch="side")
    for name in ("repo", "refs"):
        target = written.folder / name
        if (tmp_path / "before" / name).is_dir():
            shutil.rmtree(target)
            shutil.copytree(tmp_path / "before" / name, target)
        elif target.exists():
            shutil.copy2(tmp_path / "before" / name, target)
    written.age(excluding={unfinished})
    assert not any(candidates(plan(written)).values())
    written.age()
    going = candidates(plan(written))
    assert going == collected_by_library(written)
    assert going["snapshots"] == {unfinished}
    assert len(going["chunks"]) == 4


@spec_2
def test_logs_of_pruned_ancestors_stay(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    ids = [written.write(value) for value in range(4)]
    times = {info.id: info.written_at for info in written.repository.ancestry(branch="main")}
    written.repository.expire_snapshots(times[ids[2]])
    written.age()
    going = candidates(plan(written))
    assert going["snapshots"] == set(ids[:2])
    assert going["transactions"] == set()
    assert going == collected_by_library(written)


def test_what_came_after_the_listing(written: WrittenRepository) -> None:
    """A commit and a branch at what was dead, while a plan is made."""
    dead = bury(written)
    done: list[str] = []

    def interrupt(step: str) -> None:
        if step.startswith("list") and not done:
            written.branch("back", dead[0])
            done.append(written.write(9, branch="back"))

    going = candidates(plan(written, interrupt))
    assert going["snapshots"] == {dead[1]}


class Between(StorageWrapper):
    """A storage in which something happens once, right after a folder was listed."""

    def __init__(self, inner: Storage, folder: str, call: Callable[[], None]) -> None:
        super().__init__(inner)
        self._folder = folder
        self._calls = [call]

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        listed = list(super().list(prefix, after=after, until=until))
        if prefix.endswith(self._folder) and self._calls:
            self._calls.pop()()
        return iter(listed)


def observed(written: WrittenRepository, storage: Storage) -> Observation:
    store = IcechunkStore(str(written.folder), storage=storage)
    url, prefix = store.place("run")
    return store.observe(ObserveRequest(open_storage(url), prefix, LocalEngine(), DAY))


def test_a_branch_that_is_made_while_refs_are_read(tmp_path: Path) -> None:
    """In spec 1 each ref is a file: one that is made from another, which is then reset, counts."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    written.write(1)
    written.branch("side", written.tip())
    moved = written.write(2, branch="side")

    def move() -> None:
        written.branch("moved", moved)
        written.repository.reset_branch("side", written.tip())

    seen = observed(written, Between(open_storage(f"file://{tmp_path}"), "refs", move))
    assert moved in {ref.snapshot for ref in seen.refs}


def test_a_snapshot_that_is_written_and_left_while_refs_are_read(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    dead = bury(written)
    left: list[str] = []

    def leave() -> None:
        written.branch("back", dead[0])
        left.append(written.write(9, "other", branch="back"))
        written.repository.delete_branch("back")

    seen = observed(written, Between(open_storage(f"file://{tmp_path}"), "refs", leave))
    assert set(left) == seen.too_young
    assert dead[0] in seen.ids


# Refusals


def _lose(folder: str) -> Callable[[WrittenRepository], None]:
    def lose(written: WrittenRepository) -> None:
        needed = {"snapshots": {written.tip()}}.get(folder)
        for name in needed or written.names(folder):
            (written.folder / folder / name).unlink()

    return lose


def _cut(folder: str) -> Callable[[WrittenRepository], None]:
    def cut(written: WrittenRepository) -> None:
        for name in written.names(folder):
            file = written.folder / folder / name
            file.write_bytes(file.read_bytes()[:-3])

    return cut


def _swap(written: WrittenRepository) -> None:
    [(live, _, _)] = written.manifests(written.tip())
    [other, *_] = written.names("manifests") - {live}
    shutil.copy(written.folder / "manifests" / other, written.folder / "manifests" / live)


def _later(written: WrittenRepository) -> None:
    for name in written.names("manifests"):
        file = written.folder / "manifests" / name
        file.write_bytes(with_fields(file.read_bytes(), FileType.MANIFEST, {5: b""}))


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        pytest.param(_lose("snapshots"), Corrupt, id="a snapshot is gone"),
        pytest.param(_lose("manifests"), Corrupt, id="manifests are gone"),
        pytest.param(_cut("snapshots"), Corrupt, id="snapshots are cut off"),
        pytest.param(_cut("manifests"), Corrupt, id="manifests are cut off"),
        pytest.param(_swap, Corrupt, id="a manifest under another name"),
        pytest.param(_later, UnknownVersion, id="a later version"),
    ],
)
def test_nothing_is_planned_when_something_live_cannot_be_read(
    written: WrittenRepository,
    damage: Callable[[WrittenRepository], None],
    error: type[ReclaimError],
) -> None:
    bury(written)
    damage(written)
    written.age()
    with pytest.raises(error):
        plan(written)


def test_dead_snapshots_without_their_parents(tmp_path: Path) -> None:
    """In spec 1 a collection that was cut off leaves such, and so do the library's."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    first, second = bury(written)
    (written.folder / "snapshots" / first).unlink()
    going = candidates(plan(written))
    assert going["snapshots"] == {second}
    assert going == collected_by_library(written)
    written.age(excluding={second})
    assert candidates(plan(written))["snapshots"] == set()


def test_a_damaged_dead_snapshot_goes(written: WrittenRepository) -> None:
    first, _ = bury(written)
    file = written.folder / "snapshots" / first
    file.write_bytes(b"damaged")
    written.age()
    going = candidates(plan(written))
    assert first in going["snapshots"]
    assert going == collected_by_library(written)


@spec_2
def test_a_repository_that_is_read_only(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    status = icechunk.RepoStatus(
        icechunk.RepoAvailability.read_only, limited_availability_reason="being moved"
    )
    written.repository.set_status(status)
    with pytest.raises(Refused, match="is read only: being moved"):
        plan(written)


@spec_2
def test_an_upgrade_while_a_plan_is_made(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    bury(written)

    def upgrade(step: str) -> None:
        if step == "find":
            return
        if not (written.folder / "repo").exists():
            icechunk.upgrade_icechunk_repository(written.repository, dry_run=False)

    with pytest.raises((Conflict, NotFound)):
        plan(written, upgrade)


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no Icechunk repository"):
        IcechunkStore(str(tmp_path / "empty")).check()


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("chunks/0123456789ABCDEFGHJ0", "chunk"),
        ("manifests/0123456789ABCDEFGHJG", "manifest"),
        ("snapshots/1CECHNKREP0F1RSTCMT0", "snapshot"),
        ("transactions/1CECHNKREP0F1RSTCMT0", "transaction log"),
        ("chunks/0123456789ABCDEFGHJ1", "unknown"),
        ("chunks/0123456789abcdefghj0", "unknown"),
        ("chunks/00123456789ABCDEFGHJ0", "unknown"),
        ("chunks/x/0123456789ABCDEFGHJ0", "unknown"),
        ("chunks0123456789ABCDEFGHJ0", "unknown"),
        ("attributes/0123456789ABCDEFGHJ0", "unknown"),
        ("chunks/0123456789ABCDEFGHJ0\n", "unknown"),
        ("repo", "unknown"),
        ("config.yaml", "unknown"),
        ("refs/branch.main/ref.json", "unknown"),
        ("overwritten/repo.30708776939581.B3574EXAQNRY6BHY0B5G", "backup"),
        ("_reclaim/withdrawn.json", "unknown"),
        ("_reclaim/lock/1", "unknown"),
        ("_reclaim/runs/a/run.json", "run"),
        ("_reclaim/runs/a/work/x", "work"),
        ("_reclaim/runs/a/plan.json", "record"),
        ("_reclaim/quarantine/a/repository/chunks/0123456789ABCDEFGHJ0", "quarantine"),
    ],
)
def test_the_kind_of_each_object(address: str, kind: str) -> None:
    """What has another name than the library gives is of no kind that is collected."""
    format = IcechunkFormat("file:///data", "a.b (c)", 2)
    addresses = pa.array([f"a.b (c)/{address}", f"a.b (d)/{address}", address])
    kinds = format.describe(addresses).field("kind").to_pylist()
    assert kinds == [kind, "unknown", "unknown"]


# The command line


@pytest.mark.usefixtures("plain")
def test_the_whole_way(bare: CommandLine, written: WrittenRepository) -> None:
    dead = bury(written)
    name = f"icechunk:{written.folder}"
    made = bare.ok("plan", name, "--min-age", "1d", "--json").json
    assert (made["store"]["kind"], made["dead"], made["candidates"]) == ("icechunk", 2, 14)
    assert {group["kind"]: group["objects"] for group in made["going"]} == {
        "chunk": 8,
        "manifest": 2,
        "snapshot": 2,
        "transaction log": 2,
    }
    shown = bare.ok("show", made["plan"], "--objects", "--json").json
    assert {Path(row["address"]).name for row in shown["listed"]} >= set(dead)
    assert "2 were already unreachable" in bare.ok("show", made["plan"]).out
    tip = written.tip()
    done = bare.ok("apply", made["plan"], "--store", name, "--yes", "--json").json
    assert (done["objects"], done["collected"], done["failed"]) == (14, 2, 0)
    assert written.names("snapshots").isdisjoint(dead)
    assert written.reopened().tip() == tip
    back = bare.ok("undo", done["run"], "--store", name, "--json").json
    assert (back["restored"], back["left"]) == (2, [])
    again = written.reopened()
    again.branch("back", dead[1])
    assert again.tip("back") == dead[1]

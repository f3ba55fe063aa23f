"""Kill -9 before every step of an apply, an undo, a purge and an expiration.

The library opens what is left and reads every ref as before, the doctor misses nothing, and whoever
does the same again comes to the end of a run that nobody killed. ``make test`` takes some of the
steps, among them those at a change of the history; ``make soak`` takes every one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.policy import Policy, Rules, policy_document
from reclaim.run.doctor.doctor import examine_store
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run_record import Phase
from reclaim.stores.findings import Level
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from tests.icechunk.killed import Death, Nursery, Work, nursery
from tests.icechunk.repositories import FOLDERS, SPECS, WrittenRepository, bucket_storage
from tests.icechunk.resting import Resting, RestingBucket, RestingFolder
from tests.icechunk.test_differential import ancestries, contents, listed
from tests.icechunk.world import bury
from tests.support.proxy import Fault, Proxy, proxy
from tests.support.servers import SeaweedFS
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=2)

MOST_DEATHS = 300
STRIDE, STRIDE_IN_BUCKET, STRIDE_OF_REQUESTS = (1, 1, 1) if SOAK else (16, 24, 2)
"""Steps from one death to the next."""
ENDED = (Phase.UNDONE, Phase.PURGED)
LAST = Policy(Rules(keep_last=1))
"""A rule that only we can edit a history by."""

Kill = Callable[[Work, Death], bool]


@dataclass(frozen=True)
class Read:
    """What the library reads at every ref, what it says of their pasts, and the snapshots at which
    somebody could make a ref, where there is a list of them."""

    contents: Mapping[str, object]
    pasts: Mapping[str, object]
    usable: Collection[str]


class Repository:
    """A repository with dead snapshots, and one that rules let go; in a folder or in a bucket."""

    def __init__(
        self, written: WrittenRepository, location: str, rest: Callable[[], Resting]
    ) -> None:
        self.written = written
        self.location = location
        self.rest = rest
        bury(written)
        written.repository.create_tag("v1", written.tip())

    def store(self) -> IcechunkStore:
        return IcechunkStore(self.location)

    @property
    def aged(self) -> Policy:
        """A rule by which the library is asked to edit the history."""
        tip = next(iter(self.written.repository.ancestry(branch="main")))
        return Policy(Rules(older_than=tip.written_at))

    def plan(self, policy: Policy | None = None) -> WrittenPlan:
        options = PlanOptions(
            margins=Margins(objects=timedelta(0)),
            allowed_fraction=1,
            policy=policy or Policy(Rules()),
        )
        return make_plan(self.store(), LocalEngine(), options)

    def read(self) -> Read:
        repository = self.written.reopened().repository
        return Read(contents(repository), ancestries(repository), listed(repository))

    def files(self) -> tuple[set[str], set[str]]:
        """The objects that are where they belong, and those in quarantine."""
        store = self.store()
        prefix = store.format.prefix
        batches = store.storage.batches(prefix.rstrip("/"))
        every = {name for batch in batches for name in batch.column("address").to_pylist()}
        there = {name for name in every if name.removeprefix(prefix).split("/")[0] in FOLDERS}
        return there, {name for name in every if "/_reclaim/quarantine/" in name}

    def problems(self) -> Collection[str]:
        findings = examine_store(self.store(), deep=True)
        return [one.sentence for one in findings if one.level is Level.PROBLEM]

    def unlock(self) -> None:
        """Nobody else is at work: so an operator removes the lock of a process that is gone."""
        storage = self.store().storage
        for stored in list(storage.list(f"{self.store().format.prefix}_reclaim/lock")):
            storage.delete(stored.address)

    def work(self, name: str, **options: Any) -> Work:
        return Work(name, self.location, options)


@dataclass(frozen=True)
class Scene:
    """Work that is to be killed, and the run that it is about, if that is known before."""

    repository: Repository
    work: Work
    run: str = ""

    def state(self) -> str | None:
        run = self.repository.store().find_run(self.run) if self.run else None
        return None if run is None else run.phase

    def end(self) -> tuple[object, ...]:
        """All that a later run, or a reader, could see; of an edit alone also what it releases."""
        going = None if self.run else self.repository.plan().document.candidates
        return self.repository.files(), self.repository.read(), self.state(), going

    def finish(self) -> None:
        """Do it again, as far as there is something left to do."""
        if self.state() not in ENDED:
            self.work.do()

    def undone(self) -> tuple[object, ...] | None:
        """Bring back what was moved to quarantine, if the work does so; all that is seen then."""
        if not self.work.options.get("moves"):
            return None
        self.repository.work("undo", run=self.run).do()
        return self.end()


def check_deaths(scene: Scene, kill: Kill, *, first: int, stride: int) -> int:
    """Die before each step that is chosen; how often that was."""
    repository = scene.repository
    start = scene.end()
    resting, before = repository.rest(), repository.read()
    scene.work.do()
    end, after = scene.end(), repository.read()
    assert end != start
    undone = scene.undone()
    # The files; a history that the library of spec 1 has edited stays as it is.
    assert undone is None or undone[0] == start[0]
    for number in range(1, MOST_DEATHS):
        resting.restore()
        if not kill(scene.work, Death(number, first, stride)):
            assert scene.end() == end
            repository.written.reopened().write(9)
            return number - 1
        repository.unlock()
        check_read(repository.read(), before, after)
        assert not repository.problems(), number
        scene.finish()
        assert scene.end() == end, number
        assert scene.undone() == undone, number
    pytest.fail("there are more steps than the test goes through")


def check_read(found: Read, before: Read, after: Read) -> None:
    """Every ref has its arrays, and its past as it was before an edit or as it is after it."""
    assert found.contents == before.contents == after.contents
    assert found.pasts.keys() == before.pasts.keys()
    for ref, past in found.pasts.items():
        assert past in (before.pasts[ref], after.pasts[ref]), ref


def applying(repository: Repository, policy: Policy | None = None, *, moves: bool = True) -> Scene:
    plan = repository.plan(policy)
    assert plan.document.candidates
    place = plan.place
    work = repository.work("apply", url=place.url, prefix=place.prefix, moves=moves)
    return Scene(repository, work, plan.document.run)


def after_apply(repository: Repository, name: str) -> Scene:
    """Undo or purge what an apply with an edit has moved."""
    applied = applying(repository, repository.aged)
    applied.work.do()
    return Scene(repository, repository.work(name, run=applied.run), applied.run)


def expiring(repository: Repository, policy: Policy) -> Scene:
    return Scene(repository, repository.work("expire", policy=policy_document(policy)))


def undoing_edit(repository: Repository) -> Scene:
    expiring(repository, LAST).work.do()
    [run] = repository.store().runs()
    return Scene(repository, repository.work("undo", run=run.id), run.id)


MakeScene = Callable[[Repository], Scene]
OF_BOTH_SPECS: Mapping[str, MakeScene] = {
    "apply that deletes": lambda one: applying(one, moves=False),
    "apply with an edit by the library": lambda one: applying(one, one.aged),
    "undo of an apply": lambda one: after_apply(one, "undo"),
    "purge": lambda one: after_apply(one, "purge"),
    "edit by the library": lambda one: expiring(one, one.aged),
}
OF_SPEC_2: Mapping[str, MakeScene] = {
    "apply with an edit by us": lambda one: applying(one, LAST),
    "edit by us": lambda one: expiring(one, LAST),
    "undo of an edit": undoing_edit,
}
SCENES = [
    (spec, name, make)
    for spec in SPECS
    for name, make in (OF_BOTH_SPECS if spec == 1 else {**OF_BOTH_SPECS, **OF_SPEC_2}).items()
]
IN_BUCKET = {(1, "undo of an apply"), (2, "apply that deletes")}
"""What is killed in a bucket; ``make soak`` kills all."""


def each_scene(scenes: Sequence[tuple[int, str, MakeScene]]) -> pytest.MarkDecorator:
    """Each begins at another step."""
    return pytest.mark.parametrize(
        ("spec", "make", "first"),
        [(spec, make, number) for number, (spec, _, make) in enumerate(scenes, 1)],
        ids=[f"{name}, spec {spec}" for spec, name, _ in scenes],
    )


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)


@pytest.fixture(scope="module")
def forks() -> Iterator[Nursery]:
    with nursery() as made:
        yield made


@each_scene(SCENES)
def test_on_a_disk(
    tmp_path: Path,
    forks: Nursery,
    spec: int,
    make: MakeScene,
    first: int,
) -> None:
    written = WrittenRepository.create(tmp_path / "repository", spec)
    repository = Repository(
        written, str(written.folder), lambda: RestingFolder(written.folder, tmp_path / "rest")
    )
    deaths = check_deaths(make(repository), forks.kill, first=first, stride=STRIDE)
    assert deaths > 1


def in_bucket(s3: SeaweedFS, folder: Path, spec: int) -> Repository:
    bucket = s3.new_bucket()
    written = WrittenRepository.create(folder, spec, storage=bucket_storage(s3, bucket))
    location = f"{bucket}/data/repository"
    store = IcechunkStore(location)
    return Repository(written, location, lambda: RestingBucket(store.storage, "repository"))


@pytest.fixture
def bucket_variables(s3: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3.environment


@each_scene([scene for scene in SCENES if SOAK or scene[:2] in IN_BUCKET])
def test_in_a_bucket(
    s3: SeaweedFS,
    bucket_variables: Mapping[str, str],
    tmp_path: Path,
    forks: Nursery,
    spec: int,
    make: MakeScene,
    first: int,
) -> None:
    """Where ``repo`` is compared and swapped, and a move is a copy and a delete."""

    def kill(work: Work, death: Death) -> bool:
        return forks.kill(work, death, bucket_variables)

    scene = make(in_bucket(s3, tmp_path, spec))
    deaths = check_deaths(scene, kill, first=first, stride=STRIDE_IN_BUCKET)
    assert deaths


def at_request(forks: Nursery, between: Proxy, variables: Mapping[str, str]) -> Kill:
    """Kills a process before a write gets through that is not of a file of ours."""

    def kill(work: Work, death: Death) -> bool:
        process: Future[int] = Future()
        fatal = death.first + (death.number - 1) * death.stride
        writes = 0

        def plan(_number: int, method: str, path: str) -> Fault:
            nonlocal writes
            is_counted = method not in ("GET", "HEAD") and "/_reclaim/" not in path
            writes += is_counted
            if is_counted and writes == fatal:
                os.kill(process.result(), signal.SIGKILL)
            return Fault.NONE if writes < fatal else Fault.CUT_BEFORE

        between.plan = plan
        process.set_result(forks.begin(work, None, variables))
        return forks.was_killed()

    return kill


@pytest.mark.parametrize("spec", SPECS)
def test_in_the_middle_of_an_edit_by_the_library(
    s3: SeaweedFS, bucket_variables: Mapping[str, str], tmp_path: Path, forks: Nursery, spec: int
) -> None:
    """Before each of its own writes. In spec 1 it edits the history of one ref after the other."""
    repository = in_bucket(s3, tmp_path, spec)
    written = repository.written
    policy = repository.aged
    *_, old, _ = written.repository.ancestry(branch="main")
    written.branch("other", old.id)
    written.write(7, branch="other")
    with proxy(s3.endpoint) as between:
        variables = {**bucket_variables, "AWS_ENDPOINT_URL": between.endpoint}
        kill = at_request(forks, between, variables)
        scene = expiring(repository, policy)
        assert check_deaths(scene, kill, first=1, stride=STRIDE_OF_REQUESTS) > 1

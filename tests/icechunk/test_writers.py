"""Writers with the real library, in a bucket, while a plan is made and applied."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import icechunk
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import Conflict
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.sweep.removal import DELETE
from reclaim.storage import Storage
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from reclaim.testing.storage import StorageWrapper
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository, bucket_storage
from tests.icechunk.test_differential import contents
from tests.support.servers import SeaweedFS
from tests.support.soak import SOAK

SOON = PlanOptions(margins=Margins(objects=timedelta(0)), allowed_fraction=1)
spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")

Step = Callable[[str], None]


class Bucket:
    """A repository in a bucket, with two dead branches, each of two snapshots."""

    def __init__(self, s3: SeaweedFS, folder: Path, spec: int) -> None:
        bucket = s3.new_bucket()

        self.url = f"{bucket}/data/repository"
        self.written = WrittenRepository.create(folder, spec, storage=bucket_storage(s3, bucket))
        self.written.write(1)
        self.dead = [self._bury(value) for value in (2, 4)]
        self._made = 0
        self._steps: set[str] = set()
        self.expected: dict[str, int] = {}
        """The value of each array that was committed meanwhile."""

    def _bury(self, value: int) -> tuple[str, str]:
        name = f"dead-{value}"
        self.written.branch(name, self.written.tip())
        first, second = (self.written.write(value + more, branch=name) for more in (0, 1))
        self.written.repository.delete_branch(name)
        return first, second

    def at_step(self, step: str) -> None:
        """Commit at the first step of each name, and in ``make soak`` at every one."""
        if SOAK or step not in self._steps:
            self._steps.add(step)
            self.commit()

    def commit(self) -> None:
        """A commit of another writer, who has opened the repository just now."""
        self._made += 1
        name = f"later{self._made}"
        self.written.reopened().write(100 + self._made, name, chunks=1)
        self.expected[name] = 100 + self._made

    def plan(self, step: Step = lambda _step: None) -> WrittenPlan:
        return make_plan(IcechunkStore(self.url), LocalEngine(step=step), SOON)

    def apply(
        self, made: WrittenPlan, step: Step = lambda _step: None, storage: Storage | None = None
    ) -> None:
        store = IcechunkStore(self.url, storage=storage)
        apply_plan(store, LocalEngine(step=step), made.place, removal=DELETE)

    def read(self, branch: str = "main") -> dict[str, list[int]]:
        return contents(self.written.reopened().repository)[str({"branch": branch})]


@pytest.fixture
def bucket(s3: SeaweedFS, tmp_path: Path, spec: int, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(s3, tmp_path, spec)


def test_commits_at_every_step(bucket: Bucket, spec: int) -> None:
    made = bucket.plan(bucket.at_step)
    assert made.document.candidates
    bucket.commit()
    # One of the dead comes back in between, and what it shares with nobody else.
    (released, _), (dropped, _) = bucket.dead
    bucket.written.reopened().branch("back", released)
    bucket.apply(made, bucket.at_step)
    assert len(bucket.expected) > 5
    assert bucket.read() == {"a": [1] * 8} | {
        name: [value] * 2 for name, value in bucket.expected.items()
    }
    assert bucket.read("back") == {"a": [2] * 8}
    after = bucket.written.reopened()
    after.branch("again", released)
    if spec > 1:
        with pytest.raises(icechunk.IcechunkError, match="not found"):
            after.branch("late", dropped)
    bucket.commit()
    assert bucket.plan().document.dead == 0


class Swaps(StorageWrapper):
    """A storage that notes how each replacement of an object ended, and does something before."""

    def __init__(self, inner: Storage, call: Callable[[], object]) -> None:
        super().__init__(inner)
        self._calls = [call]
        self.ends: list[str] = []

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        if self._calls:
            self._calls.pop()()
        try:
            super().swap(address, data, version=version)
        except Conflict:
            self.ends.append("refused")
            raise
        self.ends.append("written")


@spec_2
def test_a_commit_between_our_read_of_repo_and_our_write(
    s3: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket itself refuses our write; it is made again from what the commit left."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(s3, tmp_path, 2)
    made = bucket.plan()
    storage = Swaps(IcechunkStore(bucket.url).storage, bucket.commit)
    bucket.apply(made, storage=storage)
    assert storage.ends == ["refused", "written"]
    assert bucket.read() == {"a": [1] * 8, "later1": [101] * 2}
    for snapshot in (one for pair in bucket.dead for one in pair):
        with pytest.raises(icechunk.IcechunkError, match="not found"):
            bucket.written.reopened().branch("late", snapshot)

"""Kill -9 between any two steps: what is left opens, and is the old state or the new one."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from reclaim.catalog import Catalog, RefReader, Repository
from reclaim.catalog.database.schema import TokenState
from reclaim.errors import NothingToCommit
from reclaim.storage import ObjectStorage
from tests.catalog import crashes, raw
from tests.support.servers import PostgreSQL
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=2)

MOST_STEPS = 200
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.catalog.crashes", "psycopg", "pyarrow.parquet"])

State = dict[str, tuple[str, dict[str, bytes]]]
"""Each branch: the message of its head, and what it shows."""


def state(repo: Repository) -> State:
    """What every branch shows, when every byte that a branch or a commit needs is there."""
    shown: State = {}
    commits: set[str] = set()
    objects: dict[str, bytes] = {}
    for ref in repo.branches():
        files = read(repo, repo.branch(ref.name), objects)
        shown[ref.name] = (repo.commit(ref.name).message, files)
        commits |= {commit.id for commit in repo.log(ref.name)}
    for commit in commits:
        read(repo, repo.at(commit), objects)
    return shown


def read(repo: Repository, reader: RefReader, objects: dict[str, bytes]) -> dict[str, bytes]:
    """What a ref shows: the first entry as users read it, the others without a transaction.

    ``objects`` has what was read already, by its address.
    """
    files: dict[str, bytes] = {}
    for entry in reader.entries():
        if entry.address not in objects:
            storage = repo._workspace.storage
            objects[entry.address] = storage.get(entry.address) if files else reader.get(entry.path)
        files[entry.path] = objects[entry.address]
        assert len(files[entry.path]) == entry.size
    return files


@dataclass
class Original:
    """A catalog from which copies are made, one for each crash."""

    location: str
    storage: str | None
    folder: Path
    postgres: PostgreSQL | None

    def copy(self) -> str:
        """A whole copy: its location."""
        if self.postgres is None:
            target = self.folder / uuid4().hex
            shutil.copytree(self.location, target)
            return str(target)
        assert self.storage is not None
        root, _, prefix = self.storage.rpartition("/")
        fresh = uuid4().hex
        bucket = ObjectStorage.open(root)
        for stored in bucket.list(prefix):
            bucket.copy(stored.address, fresh + stored.address.removeprefix(prefix))
        return self.postgres.copy_database(self.location, storage=f"{root}/{fresh}")


@pytest.fixture(params=["embedded", "server"])
def original(request: pytest.FixtureRequest, tmp_path: Path) -> Original:
    if request.param == "embedded":
        made = Original(str(tmp_path / "original"), None, tmp_path, None)
    else:
        postgres: PostgreSQL = request.getfixturevalue("postgres")
        bucket: str = request.getfixturevalue("bucket")
        place = f"{bucket}/{uuid4().hex}"
        made = Original(postgres.new_database(), place, tmp_path, postgres)
    with Catalog.init(made.location, storage=made.storage) as catalog:
        crashes.build(catalog.create_repository("sales"))
    return made


def crash(location: str, operation: str, step: int) -> int:
    environment = {key: value for key, value in os.environ.items() if key.startswith("AWS_")}
    process = CONTEXT.Process(target=crashes.run, args=(location, operation, step, environment))
    process.start()
    process.join(120)
    assert process.exitcode is not None, "the child hangs"
    code = process.exitcode
    process.close()
    return code


@pytest.mark.parametrize("operation", crashes.OPERATIONS)
def test_a_crash_leaves_the_old_state_or_the_new(original: Original, operation: str) -> None:
    with Catalog.open(original.copy()) as catalog:
        repo = catalog.repository("sales")
        before = state(repo)
        crashes.OPERATIONS[operation](repo)
        after = state(repo)
    assert before != after
    seen: set[str] = set()
    # On servers every third one; all of them in a soak.
    stride = 1 if SOAK or original.postgres is None else 3
    touched = "main" if operation in ("merge", "revert") else "staged"
    for step in range(1, MOST_STEPS, stride):
        location = original.copy()
        code = crash(location, operation, step)
        with Catalog.open(location) as catalog:
            repo = catalog.repository("sales")
            found = state(repo)
            assert found in (before, after), f"after step {step}"
            seen.add("old" if found == before else "new")
            works_again(repo, {touched: found[touched]} if touched in found else found)
        if code == 0:
            assert found == after
            assert step > 1
            break
        assert code == -9
    else:
        pytest.fail("the operation has more steps than the test goes through")
    assert seen == {"old", "new"}


def works_again(repo: Repository, found: State) -> None:
    """The next writer finishes a commit in flight and goes on."""
    for name, (_, files) in found.items():
        branch = repo.branch(name)
        branch.put("afterwards", b"later")
        reader = repo.at(branch.commit("afterwards").id)
        assert read(repo, reader, {}) == files | {"afterwards": b"later"}


@pytest.mark.parametrize("how", ["reset", "delete"])
def test_a_commit_in_flight_can_be_abandoned(original: Original, how: str) -> None:
    """A crash in the middle of a commit leaves sealed changes; they can be thrown away."""
    for step in range(1, MOST_STEPS):
        location = original.copy()
        assert crash(location, "commit", step) == -9, "no step left the changes sealed"
        with Catalog.open(location) as catalog:
            repo = catalog.repository("sales")
            if TokenState.SEALED in raw.token_states(repo).values():
                abandon(repo, how)
                return


def abandon(repo: Repository, how: str) -> None:
    branch = repo.branch("staged")
    assert branch.get("a") == b"staged over a"
    if how == "reset":
        branch.reset()
    else:
        repo.delete_branch("staged")
        repo.create_branch("staged", "main")
    assert list(branch.uncommitted()) == []
    assert branch.get("a") == b"old a"
    with pytest.raises(NothingToCommit):
        branch.commit("nothing is left")

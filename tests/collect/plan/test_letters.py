"""File systems that do not tell capital letters from small ones, and branches that differ in them.

Such a file system keeps a folder under the name that was used first and finds it under any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest

from reclaim.catalog import Catalog, addresses
from reclaim.catalog.addresses import LONGEST_SEGMENT, segment
from reclaim.catalog.names import check_ref_name
from reclaim.errors import InvalidName
from reclaim.model import StoredObject
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.storage import LastCheck, Payload, Storage, no_check
from reclaim.testing import StorageWrapper
from tests.collect.helpers.world import NAME, World, whole


class LetterBlind(StorageWrapper):
    """A storage that finds folders and objects by their names in small letters."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self._names: dict[str, str] = {}

    def _real(self, address: str) -> str:
        real = ""
        for part in address.split("/"):
            path = f"{real}/{part}" if real else part
            real = self._names.setdefault(path.lower(), path)
        return real

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        super().put(self._real(address), data, create=create)

    def get(self, address: str) -> bytes:
        return super().get(self._real(address))

    def stream(self, address: str) -> Iterator[bytes]:
        return super().stream(self._real(address))

    def head(self, address: str) -> StoredObject:
        return super().head(self._real(address))

    def list(self, prefix: str = "", *, after: str = "", until: str = "") -> Iterator[StoredObject]:
        return super().list(self._real(prefix), after=after, until=until)

    def batches(
        self, prefix: str = "", *, after: str = "", until: str = ""
    ) -> Iterator[pa.RecordBatch]:
        return super().batches(self._real(prefix), after=after, until=until)

    def folders(self, prefix: str = "") -> tuple[Sequence[str], Sequence[StoredObject]]:
        return super().folders(self._real(prefix))

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        super().move(
            self._real(source), self._real(target), size=size, fresh=fresh, last_check=last_check
        )

    def delete(self, address: str) -> None:
        super().delete(self._real(address))

    def delete_page(self, addresses: Sequence[str]) -> None:
        super().delete_page([self._real(address) for address in addresses])

    def flush(self, addresses: Iterable[str]) -> None:
        super().flush([self._real(address) for address in addresses])


class Blind:
    """A repository on such a storage, with two branches that share a folder there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.storage = LetterBlind(world.storage)
        catalog = self.opened()
        repo = catalog.repository(NAME)
        for name in ("Feature", "feature"):
            branch = repo.create_branch(name, "main")
            branch.put(f"in {name}", name.encode())
            branch.commit(name)
        catalog.close()

    def opened(self) -> Catalog:
        return self.world.opened(lambda _storage: self.storage)

    def check(self, *names: str) -> None:
        repo = self.opened().repository(NAME)
        for name in names or ("Feature", "feature"):
            assert whole(repo, name) == {f"in {name}": name.encode()}


@pytest.fixture
def old_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses as they were before capital letters were encoded."""
    monkeypatch.setattr(addresses, "segment", lambda branch: quote(branch, safe=""))


def test_branches_that_share_a_folder_keep_their_objects(local: World, old_catalog: None) -> None:
    blind = Blind(local)
    folders, _ = blind.storage.folders(f"repos/{local.repo.uid}/branches")
    assert [folder.rpartition("/")[2] for folder in folders] == ["Feature"]
    local.age()
    store = local.store(blind.opened())
    plan = local.plan(store=store, storage=blind.storage)
    assert plan.document.candidates == 0
    local.apply(plan, store=store, storage=blind.storage)
    blind.check()


def test_what_is_named_again_in_other_letters_is_confirmed(local: World, old_catalog: None) -> None:
    blind = Blind(local)
    repo = blind.opened().repository(NAME)
    head = repo.commit("feature").id
    repo.delete_branch("feature")
    local.age()
    store = local.store(blind.opened())
    plan = local.plan(store=store, storage=blind.storage)
    assert plan.document.candidates
    blind.opened().repository(NAME).create_branch("again", head)
    local.apply(plan, store=store, storage=blind.storage)
    repo = blind.opened().repository(NAME)
    assert whole(repo, "again") == {"in feature": b"feature"}


def test_an_undo_finds_what_lies_under_other_letters(local: World, old_catalog: None) -> None:
    blind = Blind(local)
    repo = blind.opened().repository(NAME)
    head = repo.commit("feature").id
    repo.delete_branch("feature")
    local.age()
    store = local.store(blind.opened())
    plan = local.plan(store=store, storage=blind.storage)
    run = local.apply(plan, store=store, storage=blind.storage, removal=MoveToQuarantine()).run
    blind.check("Feature")
    undone = local.undo(run, store=store, storage=blind.storage)
    assert (undone.snapshots, undone.left) == (1, ())
    assert whole(blind.opened().repository(NAME), head) == {"in feature": b"feature"}


def test_new_branches_share_no_folder(local: World) -> None:
    blind = Blind(local)
    folders, _ = blind.storage.folders(f"repos/{local.repo.uid}/branches")
    names = {folder.rpartition("/")[2] for folder in folders}
    assert names == {"%46eature", "feature"}
    blind.check()


def test_segments_differ_in_more_than_letters() -> None:
    names = ["main", "Main", "MAIN", "m/ain", "M/ain", "M.a-i_n", "A" * 200, "A" * 199 + "a"]
    names += ["a" * 200, "A" * 50 + "b" * 50, "%4Dain", "ü", "u\u0308"]
    made = [segment(name) for name in names]
    assert len({one.lower() for one in made}) == len(names)
    assert max(map(len, made)) <= LONGEST_SEGMENT
    assert all(one.isascii() for one in made)
    for name, one in zip(names, made, strict=True):
        assert unquote(one) == name or name.startswith(unquote(one.partition("~")[0]))


def test_names_of_branches_are_plain_letters() -> None:
    """So that no two of them differ in the way in which they write the same letter."""
    for name in ("u\u0308", "ü", "\ufb01", "\u0131", "\u212a"):
        with pytest.raises(InvalidName):
            check_ref_name(name, "branch")

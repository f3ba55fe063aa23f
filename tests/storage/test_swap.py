"""Replacing an object only if nobody else has replaced it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reclaim.errors import Conflict, NotFound
from reclaim.storage import ObjectStorage
from reclaim.urls import normalize
from tests.support.servers import SeaweedFS

pytestmark = pytest.mark.fast


@pytest.fixture(params=["folder", "memory", "server"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStorage]:
    if request.param == "server":
        server: SeaweedFS = request.getfixturevalue("s3")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield ObjectStorage.open(f"{server.new_bucket()}/root")
    else:
        memory = request.param == "memory"
        yield ObjectStorage.open("memory://" if memory else normalize(str(tmp_path)))


def test_who_comes_second_writes_nothing(storage: ObjectStorage) -> None:
    storage.put("a/b", b"first")
    data, version = storage.get_version("a/b")
    assert data == b"first"
    storage.swap("a/b", b"second", version=version)
    assert storage.get("a/b") == b"second"
    with pytest.raises(Conflict, match="changed by somebody else"):
        storage.swap("a/b", b"third", version=version)
    assert storage.get("a/b") == b"second"


def test_what_is_gone_is_not_replaced(storage: ObjectStorage) -> None:
    storage.put("a", b"first")
    _, version = storage.get_version("a")
    storage.delete("a")
    with pytest.raises((Conflict, NotFound)):
        storage.swap("a", b"second", version=version)
    with pytest.raises(NotFound):
        storage.get_version("a")

"""A filesystem on each back end, with the catalog of the other fixtures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from reclaim.catalog import Branch, Catalog
from reclaim.filesystem import ReclaimFileSystem, catalogs
from reclaim.storage import Storage
from reclaim.testing.faults import FaultyStorage
from tests.conftest import Backend


@pytest.fixture
def calls() -> Counter[str]:
    """How often each call of the storage was made, once a test has asked for it."""
    return Counter()


@pytest.fixture
def catalog(backend: Backend, calls: Counter[str]) -> Catalog:
    def count(call: str, _address: str) -> None:
        calls[call] += 1

    def counting(storage: Storage) -> Storage:
        return FaultyStorage(storage, count)

    backend.init()
    return backend.open(counting)


@pytest.fixture
def fs(catalog: Catalog, backend: Backend, main: Branch, monkeypatch: Any) -> Iterator[Any]:
    """A filesystem on the catalog, which has a repository ``sales``."""
    ReclaimFileSystem.clear_instance_cache()
    filesystem = ReclaimFileSystem(catalog=backend.location)
    monkeypatch.setitem(catalogs._opened, filesystem._url, catalog)
    yield filesystem
    ReclaimFileSystem.clear_instance_cache()

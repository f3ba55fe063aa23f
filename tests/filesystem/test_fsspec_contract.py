"""The abstract tests of fsspec for filesystems.

On SQLite only: servers make no difference to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests import abstract

from tests.conftest import Backend


@pytest.fixture
def backend(embedded: Backend) -> Backend:
    return embedded


class CatalogFixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self) -> str:
        return "sales/main/tests"

    @pytest.fixture
    def fs(self, fs: Any) -> Any:
        return fs

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def local_path(self, tmp_path: Any) -> str:
        return str(tmp_path)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(CatalogFixtures, abstract.AbstractCopyTests):  # type: ignore[misc]
    pass


class TestGet(CatalogFixtures, abstract.AbstractGetTests):  # type: ignore[misc]
    pass


class TestPut(CatalogFixtures, abstract.AbstractPutTests):  # type: ignore[misc]
    pass


class TestOpen(CatalogFixtures, abstract.AbstractOpenTests):  # type: ignore[misc]
    pass


class TestPipe(CatalogFixtures, abstract.AbstractPipeTests):  # type: ignore[misc]
    pass

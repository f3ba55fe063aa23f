"""Fixtures for every suite: servers that start once a process, and catalogs on each back end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.catalog import WrapStorage
from reclaim.storage import ObjectStorage, Storage
from reclaim.testing import ClockedStorage, FakeClock
from tests.support.exhaustive import mark_exhaustive
from tests.support.servers import PostgreSQL, SeaweedFS
from tests.support.shared_servers import postgresql_server, s3_server
from tests.support.soak import FIRST_FAILURE, SOAK
from tests.support.statements import share_compiled_statements

# Examples here go to real databases and disks, whose speed says nothing about the code.
settings.register_profile(
    "reclaim",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate] if FIRST_FAILURE in os.environ else tuple(Phase),
)
settings.load_profile("reclaim")
# The settings of whoever runs the tests are not theirs.
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
share_compiled_statements()

# Nothing is left in the cache folder of who runs the tests, nor made behind their back.
os.environ["RECLAIM_SPARK_ARCHIVE"] = "off"

BACKENDS = ("embedded", "server")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a test marked ``remote_values`` does on SQLite only; a soak does all of it."""
    if SOAK:
        return
    mark_exhaustive(items)
    left_out = [item for item in items if isinstance(item, pytest.Function) and _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_left_out(item: pytest.Function) -> bool:
    marker = item.get_closest_marker("remote_values")
    if marker is None or item.callspec.params.get("backend") != "server":
        return False
    return any(item.callspec.params[name] not in some for name, some in marker.kwargs.items())


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder outside pytest's own, which the next pytest closes to the user of PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="reclaim-tests-") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def s3(server_folder: Path) -> Iterator[SeaweedFS]:
    with s3_server(server_folder / "seaweedfs") as server:
        os.environ.update(server.environment)
        yield server


@pytest.fixture(scope="session")
def bucket(s3: SeaweedFS) -> str:
    return s3.new_bucket()


@pytest.fixture(scope="session")
def postgres(server_folder: Path) -> Iterator[PostgreSQL]:
    with postgresql_server(server_folder / "postgresql") as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@dataclass
class Backend:
    """A place for one catalog, which can be opened several times, as several processes would."""

    name: str
    location: str
    storage: str | None
    clock: FakeClock
    skew: timedelta = timedelta(0)
    postgres: PostgreSQL | None = None
    _opened: ExitStack = field(default_factory=ExitStack)
    _clocked: ClockedStorage | None = None

    def wrap(self, storage: Storage) -> Storage:
        """One storage clock for all instances: on S3 it lives in memory."""
        if self._clocked is None:
            self._clocked = ClockedStorage(storage, self.clock, skew=self.skew)
        return self._clocked

    @property
    def clocked(self) -> ClockedStorage:
        """The storage of the catalog, which need not have been made or opened yet."""
        if self._clocked is None:
            assert self.storage is not None
            self.wrap(ObjectStorage.open(self.storage, create=True))
        assert self._clocked is not None
        return self._clocked

    def init(self) -> Catalog:
        catalog = Catalog.init(
            self.location, storage=self.storage, clock=self.clock, wrap_storage=self.wrap
        )
        return self._opened.enter_context(catalog)

    def open(self, wrap: WrapStorage | None = None) -> Catalog:
        """Another instance of the same catalog."""

        def both(storage: Storage) -> Storage:
            return wrap(self.wrap(storage)) if wrap else self.wrap(storage)

        catalog = Catalog.open(self.location, clock=self.clock, wrap_storage=both)
        return self._opened.enter_context(catalog)

    def close(self) -> None:
        self._opened.close()


def make_backend(
    name: str, request: pytest.FixtureRequest, folder: Path, clock: FakeClock
) -> Backend:
    if name == "embedded":
        return Backend(name, str(folder / "catalog"), None, clock)
    postgres: PostgreSQL = request.getfixturevalue("postgres")
    bucket: str = request.getfixturevalue("bucket")
    place = f"{bucket}/{uuid4().hex}"
    return Backend(name, postgres.new_database(), place, clock, postgres=postgres)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Backend]:
    made = make_backend(request.param, request, tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def embedded(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Backend]:
    made = make_backend("embedded", request, tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def catalog(backend: Backend) -> Catalog:
    return backend.init()


@pytest.fixture
def repo(catalog: Catalog) -> Repository:
    return catalog.create_repository("sales")


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")

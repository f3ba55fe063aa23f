"""Storage and databases that falter: asked again where that is safe, else a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, event, text

from reclaim.catalog import Catalog, Repository
from reclaim.catalog.staging import tokens
from reclaim.errors import DatabaseUnavailable, StorageDenied, StorageUnavailable
from reclaim.storage import ObjectStorage, objects
from tests.support.proxy import Fault, Proxy, proxy
from tests.support.servers import ACCESS_KEY, SECRET_KEY, PostgreSQL, SeaweedFS, postgresql


@pytest.fixture
def faulty(s3: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A storage endpoint with faults, and short waits between tries."""
    quick = {
        "max_retries": 6,
        "retry_timeout": timedelta(seconds=20),
        "backoff": {
            "init_backoff": timedelta(milliseconds=2),
            "max_backoff": timedelta(milliseconds=20),
            "base": 2,
        },
    }
    monkeypatch.setattr(objects, "RETRY", quick)
    with proxy(s3.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        yield running


@pytest.fixture
def repo(faulty: Proxy, bucket: str, tmp_path: Path) -> Iterator[Repository]:
    place = f"{bucket}/{uuid4().hex}"
    with Catalog.init(f"sqlite:///{tmp_path}/catalog.db", storage=place) as catalog:
        yield catalog.create_repository("sales")


def work(repo: Repository) -> None:
    """A little of everything."""
    main = repo.branch("main")
    main.put("a", b"one")
    main.put("b", b"two")
    first = main.commit("first")
    main.put("a", b"three")
    main.copy("b", "c")
    other = repo.create_branch("other", first.id)
    other.copy("a", "from-main", source_ref="main")
    other.commit("other")
    main.commit("second")
    main.merge("other")
    assert {e.path: main.get(e.path) for e in main.entries()} == {
        "a": b"three",
        "b": b"two",
        "c": b"two",
        "from-main": b"three",
    }
    assert repo.at(first.id).get("a") == b"one"
    assert repo.read_roots(ObjectStorage.open("memory://")).held == 0


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT_BEFORE, Fault.CUT_AFTER])
@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_storage_that_falters_is_asked_again(
    repo: Repository, faulty: Proxy, fault: Fault, every: int
) -> None:
    faulty.plan = lambda number, *_: fault if number % every == 0 else Fault.NONE
    work(repo)
    assert faulty.faults > 5


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT_BEFORE])
@pytest.mark.parametrize("part", ["/branches/", "/_reclaim/meta/", "/_reclaim/epoch/"])
def test_a_storage_that_stays_away_is_an_error_and_loses_nothing(
    repo: Repository, faulty: Proxy, fault: Fault, part: str
) -> None:
    main = repo.branch("main")
    down = [True]
    faulty.plan = lambda _, __, path: fault if down[0] and part in path else Fault.NONE

    def put_and_commit() -> None:
        main.put("a", b"one")
        main.commit("one")

    with pytest.raises(StorageUnavailable) as caught:
        put_and_commit()
    assert caught.value.exit_code == 5
    assert repo.commit("main").message == "Repository created"
    down[0] = False
    if not main.exists("a"):
        main.put("a", b"one")
    main.commit("one")
    assert repo.at("main").get("a") == b"one"


def test_profiles_give_credentials_and_the_catalog_stores_none(
    s3: SeaweedFS, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = f"[other]\naws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"
    (tmp_path / "credentials").write_text(profile)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "other")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with Catalog.init(tmp_path / "c", storage=f"{bucket}/{uuid4().hex}") as catalog:
        main = catalog.create_repository("sales").branch("main")
        main.put("a", b"one")
        assert main.get("a") == b"one"
    for file in (tmp_path / "c").rglob("*"):
        if file.is_file():
            assert SECRET_KEY.encode() not in file.read_bytes()


def test_wrong_credentials_are_denied(
    s3: SeaweedFS, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StorageDenied) as caught:
        ObjectStorage.open(bucket).put("a", b"x")
    assert "wrong" not in str(caught.value.body())


@pytest.fixture
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """A server of its own, to be restarted."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="reclaim-tests-") as folder:
        with postgresql(Path(folder) / "postgresql") as server:
            yield server


@pytest.fixture
def on_postgres(own_postgres: PostgreSQL, tmp_path: Path) -> Iterator[Repository]:
    url = own_postgres.new_database()
    with Catalog.init(url, storage=str(tmp_path / "objects")) as catalog:
        yield catalog.create_repository("sales")


def test_a_database_that_restarts_between_calls_is_not_noticed(
    on_postgres: Repository, own_postgres: PostgreSQL
) -> None:
    main = on_postgres.branch("main")
    main.put("a", b"one")
    own_postgres.restart()
    assert main.get("a") == b"one"
    own_postgres.restart()
    main.commit("one")
    own_postgres.restart()
    main.put("a", b"two")
    assert main.get("a") == b"two"


def test_a_database_that_restarts_inside_a_transaction_is_asked_again(
    on_postgres: Repository, own_postgres: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = on_postgres.branch("main")
    main.put("a", b"one")
    lock = tokens.lock_open_token
    left = [own_postgres.restart]

    def restart_once(connection: Connection, *args: Any) -> int:
        token = lock(connection, *args)
        if left:
            left.pop()()
        return token

    monkeypatch.setattr(tokens, "lock_open_token", restart_once)
    main.put("b", b"two")
    assert not left
    assert main.get("b") == b"two"
    main.commit("one")
    assert {e.path for e in on_postgres.at("main").entries()} == {"a", "b"}


def test_a_connection_lost_while_saving_says_that_it_does_not_know(
    on_postgres: Repository, own_postgres: PostgreSQL
) -> None:
    main = on_postgres.branch("main")
    database = on_postgres._workspace.database
    kill = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid")
    left = [True]

    def cut(connection: Connection) -> None:
        if left and connection.get_execution_options().get("reclaim_writes"):
            left.pop()
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
            with database._engine.connect() as other:
                other.execute(kill, {"pid": pid})

    main.put("first", b"opens the partition")
    event.listen(database._engine, "commit", cut)
    with pytest.raises(DatabaseUnavailable, match="is unknown"):
        main.delete("first")
    event.remove(database._engine, "commit", cut)
    assert main.exists("first"), "here it was not saved"
    main.delete("first")


def test_a_database_that_is_gone_is_a_clear_error(
    on_postgres: Repository, own_postgres: PostgreSQL
) -> None:
    main = on_postgres.branch("main")
    main.put("a", b"one")
    own_postgres.stop()
    for call in (lambda: main.get("a"), lambda: main.put("b", b"two"), lambda: main.commit("c")):
        with pytest.raises(DatabaseUnavailable) as caught:
            call()
        assert caught.value.exit_code == 5
    own_postgres.start()
    assert main.get("a") == b"one"
    assert not main.exists("b")

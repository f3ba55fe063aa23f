"""Physical addresses: uploading around the catalog, and the token that links the upload."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
import pytest
from obstore.store import from_url
from sqlalchemy import select

from reclaim.catalog import Branch, Catalog, PhysicalAddress, Repository
from reclaim.catalog.database.schema import PartitionState, UploadState, partitions, upload_tokens
from reclaim.catalog.staging.partitions import close_partition
from reclaim.catalog.staging.physical_addresses import TOKEN_VALID
from reclaim.errors import (
    InvalidInput,
    InvalidPath,
    InvalidToken,
    NotFound,
    TokenExpired,
    TokenUsed,
)
from reclaim.testing import FakeClock
from tests.conftest import Backend


def upload(repo: Repository, physical: PhysicalAddress, data: bytes = b"data") -> None:
    repo._workspace.storage.put(physical.address, data)


def state(repo: Repository, physical: PhysicalAddress) -> str:
    query = select(upload_tokens.c.state).where(upload_tokens.c.id == physical.token)
    with repo._workspace.database.read() as connection:
        return str(connection.execute(query).scalar_one())


def test_an_upload_is_linked_and_reads_back(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    physical = main.get_physical_address("a/b")
    assert physical.expires_at == clock.now() + TOKEN_VALID == clock.now() + timedelta(hours=6)
    assert physical.address.startswith(f"repos/{repo.uid}/branches/main/")
    assert not main.exists("a/b")
    upload(repo, physical)
    assert not main.exists("a/b")
    clock.advance(hours=1)
    entry = main.link_physical_address(
        "a/b", physical, content_type="text/plain", metadata={"k": "v"}
    )
    assert main.stat("a/b") == entry
    assert main.get("a/b") == b"data"
    assert (entry.address, entry.size, entry.created_at) == (physical.address, 4, clock.now())
    assert (entry.content_type, entry.metadata) == ("text/plain", {"k": "v"})
    main.commit("linked")
    assert main.get("a/b") == b"data"


def upload_by_url(url: str, data: bytes) -> None:
    """As somebody would who has never heard of the catalog."""
    if url.startswith("file://"):
        file = Path(unquote(urlsplit(url).path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    else:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        obstore.put(from_url(f"s3://{bucket}"), key, data)


@pytest.mark.parametrize("branch", ["side", "feature/one"])
def test_the_url_is_where_others_upload_to(repo: Repository, branch: str) -> None:
    side = repo.create_branch(branch)
    physical = side.get_physical_address("a")
    upload_by_url(physical.url, b"from elsewhere")
    side.link_physical_address("a", physical)
    assert side.get("a") == b"from elsewhere"


def test_addresses_and_tokens_are_fresh_each_time(main: Branch) -> None:
    given = [main.get_physical_address("a") for _ in range(3)]
    assert len({physical.address for physical in given}) == 3
    assert len({physical.token for physical in given}) == 3


def test_a_token_works_once(repo: Repository, main: Branch) -> None:
    physical = main.get_physical_address("a")
    upload(repo, physical)
    main.link_physical_address("a", physical)
    with pytest.raises(TokenUsed, match="'a' was already used"):
        main.link_physical_address("a", physical)
    main.delete("a")
    with pytest.raises(TokenUsed):
        main.link_physical_address("a", physical)
    assert not main.exists("a")
    assert state(repo, physical) == UploadState.USED


def test_a_token_works_until_it_expires(repo: Repository, main: Branch, clock: FakeClock) -> None:
    first = main.get_physical_address("a", valid=timedelta(minutes=1))
    second = main.get_physical_address("b", valid=timedelta(minutes=1))
    upload(repo, first)
    upload(repo, second)
    clock.advance(timedelta(minutes=1) - timedelta(microseconds=1))
    main.link_physical_address("a", first)
    clock.advance(timedelta(microseconds=1))
    assert clock.now() == second.expires_at
    with pytest.raises(TokenExpired, match="expired at 2026-01-01 00:01:00 UTC"):
        main.link_physical_address("b", second)
    clock.advance(days=1)
    with pytest.raises(TokenExpired):
        main.link_physical_address("b", second)
    # A used token says so, however late.
    with pytest.raises(TokenUsed):
        main.link_physical_address("a", first)
    assert [entry.path for entry in main.entries()] == ["a"]


def test_a_token_that_the_collector_expired_stays_expired(repo: Repository, main: Branch) -> None:
    physical = main.get_physical_address("a")
    upload(repo, physical)
    with repo._workspace.database.write() as connection:
        connection.execute(upload_tokens.update().values(state=UploadState.EXPIRED))
    with pytest.raises(TokenExpired):
        main.link_physical_address("a", physical)
    assert not main.exists("a")


def test_a_token_is_for_one_path_branch_address_and_repository(
    catalog: Catalog, repo: Repository, main: Branch
) -> None:
    physical = main.get_physical_address("a")
    other = main.get_physical_address("b")
    upload(repo, physical)
    upload(repo, other)
    side = repo.create_branch("side")
    stranger = catalog.create_repository("stranger").branch("main")
    wrong = [
        (main, "b", physical),
        (side, "a", physical),
        (stranger, "a", physical),
        (main, "a", replace(physical, address=other.address)),
        (main, "a", replace(physical, token=other.token)),
        (main, "a", replace(physical, token="0" * 32)),
        (main, "a", replace(physical, token="")),
        (main, "b", replace(other, address=physical.address)),
    ]
    for branch, path, address in wrong:
        with pytest.raises(InvalidToken, match="the upload token is not for"):
            branch.link_physical_address(path, address)
        assert list(branch.entries()) == []
    assert state(repo, physical) == UploadState.PENDING
    # What is said of url and expiry does not count.
    main.link_physical_address("a", replace(physical, url="", expires_at=repo.created_at))
    assert main.get("a") == b"data"


def test_nothing_uploaded_is_not_found(repo: Repository, main: Branch) -> None:
    physical = main.get_physical_address("a")
    with pytest.raises(NotFound, match="nothing was uploaded to"):
        main.link_physical_address("a", physical)
    upload(repo, physical)
    main.link_physical_address("a", physical)


def test_a_branch_made_again_does_not_take_the_old_token(repo: Repository) -> None:
    side = repo.create_branch("side")
    physical = side.get_physical_address("a")
    upload(repo, physical)
    repo.delete_branch("side")
    with pytest.raises(NotFound, match="no branch 'side'"):
        side.link_physical_address("a", physical)
    repo.create_branch("side")
    with pytest.raises(InvalidToken):
        side.link_physical_address("a", physical)


def test_a_token_outlives_the_instance_that_gave_it(
    backend: Backend, catalog: Catalog, repo: Repository, main: Branch
) -> None:
    physical = main.get_physical_address("a")
    upload(repo, physical)
    catalog.close()
    other = backend.open().repository("sales")
    with other._workspace.database.read() as connection:
        states = connection.execute(select(partitions.c.state)).scalars().all()
    assert states == [PartitionState.CLOSED]
    other.branch("main").link_physical_address("a", physical)
    assert other.branch("main").get("a") == b"data"


def test_a_token_outlives_its_partition(repo: Repository, main: Branch) -> None:
    """The collector may close the partition; the token alone protects the address."""
    physical = main.get_physical_address("a")
    partition = physical.address.split("/")[-2]
    with repo._workspace.database.write() as connection:
        close_partition(connection, repo.uid, partition, repo._workspace.now())
    upload(repo, physical)
    main.link_physical_address("a", physical)
    assert main.get("a") == b"data"


def test_a_link_replaces_what_is_at_the_path(repo: Repository, main: Branch) -> None:
    main.put("a", b"old")
    main.commit("old")
    main.put("a", b"staged")
    physical = main.get_physical_address("a")
    upload(repo, physical, b"new")
    main.link_physical_address("a", physical)
    assert main.get("a") == b"new"


def test_a_commit_between_does_not_disturb_a_token(repo: Repository, main: Branch) -> None:
    physical = main.get_physical_address("a")
    main.put("b", b"1")
    main.commit("between")
    upload(repo, physical)
    main.link_physical_address("a", physical)
    assert [change.path for change in main.uncommitted()] == ["a"]


def test_a_token_needs_some_time(main: Branch) -> None:
    for valid in (timedelta(0), timedelta(microseconds=-1)):
        with pytest.raises(InvalidInput, match="must be positive"):
            main.get_physical_address("a", valid=valid)


def test_a_token_cannot_be_valid_beyond_all_time(main: Branch) -> None:
    with pytest.raises(InvalidInput):
        main.get_physical_address("a", valid=timedelta.max)


def test_a_wrong_path_or_branch_gets_no_address(repo: Repository, main: Branch) -> None:
    with pytest.raises(InvalidPath):
        main.get_physical_address("../a")
    with pytest.raises(InvalidPath):
        main.link_physical_address("/a", main.get_physical_address("a"))
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").get_physical_address("a")
    with repo._workspace.database.read() as connection:
        assert len(connection.execute(select(upload_tokens)).all()) == 1

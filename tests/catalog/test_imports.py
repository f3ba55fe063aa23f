"""Stage: objects outside the catalog, where they are, and everything that must not be staged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from obstore.store import from_url

from reclaim.catalog import Branch, Catalog, Import, Repository
from reclaim.errors import InvalidInput, InvalidPath, NotFound, OwnedAddress, ReclaimError
from reclaim.testing import FakeClock
from reclaim.urls import normalize
from tests.conftest import Backend


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else's."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "one.csv").write_bytes(b"one")
    return folder


def on_disk(repo: Repository) -> Path:
    """Where the storage's root is, on the embedded back end."""
    return Path(repo._workspace.storage.url.removeprefix("file://"))


def test_a_staged_object_reads_back(main: Branch, outside: Path, clock: FakeClock) -> None:
    entry = main.stage("data/one.csv", str(outside / "one.csv"))
    assert main.stat("data/one.csv") == entry
    assert (entry.size, entry.created_at) == (3, clock.now())
    assert entry.address == (outside / "one.csv").as_uri()
    assert not entry.owned
    assert main.get("data/one.csv") == b"one"
    assert b"".join(main.stream("data/one.csv")) == b"one"
    main.commit("imported")
    assert main.stat("data/one.csv") == entry
    assert main.get("data/one.csv") == b"one"


def test_many_objects_are_staged_as_told(repo: Repository, main: Branch, outside: Path) -> None:
    here = outside.as_uri()
    count = main.stage_many(
        Import(f"d/{n}", f"{here}/{n}", n, f"md5:{n}", "text/csv", {"n": str(n)}) for n in range(7)
    )
    assert count == 7
    entry = main.stat("d/3")
    assert (entry.size, entry.checksum, entry.content_type) == (3, "md5:3", "text/csv")
    assert entry.metadata == {"n": "3"}
    (outside / "3").write_bytes(b"333")
    assert main.get("d/3") == b"333"
    assert main.stage_many([]) == 0


def test_one_wrong_item_stages_nothing_of_its_batch(
    repo: Repository, main: Branch, outside: Path
) -> None:
    good = Import("good", f"{outside}/one.csv", 3)
    owned = f"{repo._workspace.storage.url}/repos/{repo.uid}/x"
    for bad in (Import("/bad", good.address, 3), Import("bad", owned, 3), Import("bad", "x", 3)):
        with pytest.raises((InvalidInput, OwnedAddress)):
            main.stage_many([good, bad])
        assert list(main.entries()) == []


def test_staging_on_a_branch_that_is_not_there_is_refused(repo: Repository, outside: Path) -> None:
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").stage("a", f"{outside}/one.csv")


def test_a_wrong_path_is_refused(main: Branch, outside: Path) -> None:
    with pytest.raises(InvalidPath):
        main.stage("../a", f"{outside}/one.csv")


@pytest.mark.parametrize(
    "address", ["one.csv", "./one.csv", "outside/one.csv", "..", "", "~/one.csv", "C:one.csv"]
)
def test_an_address_must_be_whole(embedded: Backend, address: str) -> None:
    main = embedded.init().create_repository("sales").branch("main")
    with pytest.raises(InvalidInput):
        main.stage("a", address)
    with pytest.raises(InvalidInput):
        main.stage_many([Import("a", address, 1)])
    assert list(main.entries()) == []


def test_an_object_that_is_not_there_is_not_found(main: Branch, outside: Path) -> None:
    for missing in (outside / "absent", outside / "absent" / "x", outside):
        with pytest.raises(NotFound):
            main.stage("a", str(missing))
    assert list(main.entries()) == []


def test_an_object_that_disappeared_says_where_it_was(main: Branch, outside: Path) -> None:
    main.stage("a", f"{outside}/one.csv")
    main.commit("imported")
    (outside / "one.csv").unlink()
    for read in (main.get, lambda path: list(main.stream(path))):
        with pytest.raises(
            NotFound, match=r"^a points to file://.*/one.csv, which no longer exists"
        ) as e:
            read("a")
        assert "never deletes it" in (e.value.hint or "")


def test_the_catalog_never_touches_what_is_outside(
    repo: Repository, main: Branch, outside: Path
) -> None:
    file = outside / "one.csv"
    before = file.stat()
    main.stage("a", str(file))
    main.put("a", b"over it")
    main.stage("a", str(file))
    main.delete("a")
    main.stage("b", str(file))
    main.move("b", "c")
    main.copy("c", "d")
    main.commit("in")
    main.delete_many(["c", "d"])
    main.commit("out")
    main.stage("e", str(file))
    main.reset()
    repo.clean()
    assert file.read_bytes() == b"one"
    after = file.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert os.listdir(outside) == ["one.csv"]  # noqa: PTH208


def test_files_with_odd_names_read_back(embedded: Backend, outside: Path) -> None:
    main = embedded.init().create_repository("sales").branch("main")
    names = ["a b", "ü", "100%", "%41", "a#b", "a?b", "a&b=c", "a+b", "*", "~x", "x.", ".x", "a\\b"]
    for name in names:
        (outside / name).write_bytes(name.encode())
        for address in (str(outside / name), (outside / name).as_uri()):
            main.stage("a", address)
            assert main.get("a") == name.encode()


def test_a_file_url_with_a_query_is_not_another_file(embedded: Backend, outside: Path) -> None:
    """An unescaped '?' or '#' must not cut the name: one.csv is not what was asked for."""
    main = embedded.init().create_repository("sales").branch("main")
    for address in (f"file://{outside}/one.csv?x", f"file://{outside}/one.csv#x"):
        with pytest.raises(ReclaimError):
            main.stage("a", address)


# What a catalog may collect is refused, however it is spelled


def spellings(folder: Path, inside: str) -> dict[str, str]:
    """Ways to write ``folder/inside``."""
    parts = inside.split("/")
    link = folder.parent / "link"
    if not link.exists():
        link.symlink_to(folder)
    return {
        "path": f"{folder}/{inside}",
        "url": f"file://{folder}/{inside}",
        "url, shouted": f"FILE://{folder}/{inside}",
        "localhost": f"file://localhost{folder}/{inside}",
        "escaped": f"file://{folder}/%72epos/{'/'.join(parts[1:])}",
        "dots": f"{folder}/x/../{inside}",
        "dot": f"{folder}/./{inside}",
        "url with dots": f"file://{folder}/{parts[0]}/../{inside}",
        "escaped dots": f"file://{folder}/x/%2e%2e/{inside}",
        "slashes": f"{folder}//{parts[0]}//{'/'.join(parts[1:])}",
        "leading slashes": f"/{folder}/{inside}",
        "url with slashes": f"file://{folder}//{inside}",
        "link": f"{link}/{inside}",
        "url of a link": f"file://{link}/{inside}",
    }


def refused(main: Branch, addresses: dict[str, str]) -> None:
    """Each is refused as owned, or as no address at all; the plainest as owned."""
    taken = []
    for name, address in addresses.items():
        with suppress(OwnedAddress, InvalidInput):
            main.stage_many([Import("a", address, 1)])
            taken.append(name)
        with suppress(OwnedAddress, InvalidInput):
            main.stage("a", address)
            taken.append(name)
    assert taken == []
    assert not main.exists("a")
    with pytest.raises(OwnedAddress, match="may collect it"):
        main.stage("a", next(iter(addresses.values())))


def test_what_lies_in_this_storage_is_refused_in_every_spelling(embedded: Backend) -> None:
    repo = embedded.init().create_repository("sales")
    main = repo.branch("main")
    entry = main.put("b", b"1")
    folder = on_disk(repo)
    refused(main, spellings(folder, entry.address))
    link = folder.parent / "straight"
    link.symlink_to(folder / entry.address)
    refused(main, {"link to the object": str(link)})
    # Also what is not there, or not ours yet.
    refused(main, spellings(folder, f"repos/{repo.uid}/branches/main/x/y"))
    refused(main, spellings(folder, "repos/future/x"))


def test_another_repository_of_the_catalog_is_refused(catalog: Catalog, main: Branch) -> None:
    entry = catalog.create_repository("other").branch("main").put("b", b"1")
    refused(main, {"url": f"{catalog.storage_url}/{entry.address}"})


def test_the_storage_of_another_catalog_is_refused(
    embedded: Backend, tmp_path: Path, clock: FakeClock
) -> None:
    main = embedded.init().create_repository("sales").branch("main")
    with Catalog.init(tmp_path / "other", clock=clock) as other:
        repo = other.create_repository("sales")
        entry = repo.branch("main").put("b", b"1")
        refused(main, spellings(on_disk(repo), entry.address))
    with Catalog.init(tmp_path / "db", storage=str(tmp_path / "s"), clock=clock) as third:
        address = third.create_repository("r1").branch("main").put("b", b"1").address
        refused(main, spellings(tmp_path / "s", address))


def test_the_storage_of_a_catalog_that_was_made_later_is_refused(
    embedded: Backend, tmp_path: Path, clock: FakeClock
) -> None:
    """What was nobody's when it was asked first can be somebody's now."""
    main = embedded.init().create_repository("sales").branch("main")
    shared = tmp_path / "shared"
    (shared / "repos").mkdir(parents=True)
    (shared / "repos" / "file").write_bytes(b"1")
    main.stage("early", f"{shared}/repos/file")
    with Catalog.init(tmp_path / "db", storage=str(shared), clock=clock) as other:
        address = other.create_repository("r1").branch("main").put("b", b"1").address
        refused(main, {"path": f"{shared}/{address}"})


def test_what_only_looks_like_a_catalog_is_taken(embedded: Backend, outside: Path) -> None:
    repo = embedded.init().create_repository("sales")
    main = repo.branch("main")
    folder = on_disk(repo)
    for file in (outside / "repos" / "x", folder / "other" / "x", folder.parent / "repos2" / "x"):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"1")
        assert main.stage("a", str(file)).size == 1


# On S3


@pytest.fixture
def here(bucket: str) -> str:
    """A place of its own on S3."""
    return f"{bucket}/{uuid4().hex}"


@pytest.fixture
def on_s3(tmp_path: Path, clock: FakeClock, here: str) -> Iterator[Catalog]:
    with Catalog.init(tmp_path / "db", storage=f"{here}/storage", clock=clock) as catalog:
        yield catalog


Put = Callable[[str, bytes], str]


@pytest.fixture
def put(here: str) -> Put:
    """Puts an object around the catalog; returns its URL."""
    store = from_url(here)

    def putting(key: str, data: bytes) -> str:
        obstore.put(store, key, data)
        return f"{here}/{key}"

    return putting


def test_an_object_on_s3_reads_back(on_s3: Catalog, put: Put) -> None:
    main = on_s3.create_repository("sales").branch("main")
    url = put("elsewhere/one.csv", b"one")
    entry = main.stage("a", url)
    assert (entry.address, entry.size) == (url, 3)
    assert entry.checksum.startswith("etag:")
    assert main.get("a") == b"one"
    # One spelling is kept, whichever was given.
    assert main.stage("a", url.replace("s3://", "S3A://")).address == url
    with pytest.raises(NotFound):
        main.stage("b", url + "x")
    for other in ("x/../elsewhere", "/elsewhere", "./elsewhere"):
        with pytest.raises(InvalidInput):
            main.stage("b", url.replace("elsewhere", other))


def test_what_lies_in_this_storage_is_refused_on_s3(on_s3: Catalog, here: str, put: Put) -> None:
    main = on_s3.create_repository("sales").branch("main")
    address = main.put("b", b"1").address
    bucket, _, folder = here.removeprefix("s3://").partition("/")
    inside = f"{folder}/storage/{address}"
    refused(
        main,
        {
            "s3": f"s3://{bucket}/{inside}",
            "s3a": f"s3a://{bucket}/{inside}",
            "s3n": f"s3n://{bucket}/{inside}",
            "shouted": f"S3://{bucket}/{inside}",
            "slashes": f"s3://{bucket}//{inside}",
            "more slashes": f"s3a://{bucket}/{folder}//storage/{address}",
            "slash before repos": f"s3://{bucket}/{folder}/storage//{address}",
            "dots": f"s3://{bucket}/x/../{inside}",
            "dots in repos": f"s3://{bucket}/{folder}/storage/repos/../{address}",
            "dot": f"s3://{bucket}/./{inside}",
            "not there": f"s3://{bucket}/{folder}/storage/repos/x",
        },
    )
    assert main.stage("c", put("storage/free/x", b"1")).size == 1


def test_the_storage_of_another_catalog_is_refused_on_s3(
    on_s3: Catalog, put: Put, tmp_path: Path, clock: FakeClock
) -> None:
    main = on_s3.create_repository("sales").branch("main")
    put("other/_reclaim_root.json", b"{}")
    url = put("other/repos/r/x", b"1")
    refused(main, {"another catalog": url, "s3a": url.replace("s3://", "s3a://")})


def test_keys_with_odd_names_read_back_or_are_refused(on_s3: Catalog, put: Put) -> None:
    """Never another object than the one that was named."""
    main = on_s3.create_repository("sales").branch("main")
    for decoy in ("x", "a"):
        put(f"odd/{decoy}", b"decoy")
        put(decoy, b"decoy")
    wrong = []
    for name in ("x.", ".x", "a b", "ü", "a#b", "a?b", "a+b", "a&b=c", "*"):
        url = put(f"odd/{name}", name.encode())
        for address in (url, url.replace("s3://", "s3a://")):
            try:
                main.stage("a", address)
            except InvalidInput:
                continue
            if main.get("a") != name.encode():
                wrong.append(address.rpartition("/")[2] + " as " + address[:3])
    assert wrong == []


def test_a_dot_at_the_end_of_a_place_is_part_of_its_name() -> None:
    assert normalize("s3://bucket/.reclaim") == "s3://bucket/.reclaim"
    assert normalize("s3://bucket/data.") == "s3://bucket/data."
    assert normalize("s3://bucket/./a/") == "s3://bucket/a"
    assert normalize("s3://bucket/.") == normalize("s3://bucket/x/..") == "s3://bucket"


def test_a_url_with_credentials_is_refused_and_not_repeated(on_s3: Catalog) -> None:
    main = on_s3.create_repository("sales").branch("main")
    with pytest.raises(InvalidInput) as error:
        main.stage("a", "s3://key:hunter2@bucket/x")
    assert "hunter2" not in str(error.value.body())


@pytest.mark.parametrize(
    "address", ["nothing://bucket/x", "s3://", "s3:///x", "ftp://host/x", "s3://b/", "s3://b"]
)
def test_an_address_that_cannot_be_used_is_refused(embedded: Backend, address: str) -> None:
    main = embedded.init().create_repository("sales").branch("main")
    with pytest.raises(InvalidInput):
        main.stage("a", address)

"""A folder on a disk: the names that obstore gives, and no link followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore

from reclaim.errors import InvalidInput, OutOfSpace, StorageUnavailable, UnsafeFolder
from reclaim.storage import LISTED, ObjectStorage, local_folder
from reclaim.storage.local_folder import LocalFolder

pytestmark = pytest.mark.fast

NAMES = (
    *("plain", "a b", "per%41cent", "%2F", "100%", "#", "x#1y", "x#", "star*", "q?", "bs\\x"),
    *("ü", "u\u0308", "\U0001f600", ".hidden", "...", "a:b", "[b]{c}~<>|\"^`&'$()+,;=@!"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "store" / "live").mkdir(parents=True)
    (root / "store" / "live" / "x").write_bytes(b"live")
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"kept")
    return outside


@pytest.fixture
def storage(root: Path) -> ObjectStorage:
    return ObjectStorage.open(root.as_uri())


def test_listings_are_those_of_obstore(root: Path, storage: ObjectStorage) -> None:
    for name in NAMES:
        (root / "odd" / f"in {name}").mkdir(parents=True)
        (root / "odd" / f"in {name}" / "file").write_bytes(b"xy")
        (root / "odd" / name).write_bytes(b"x")
    (root / "odd" / "upload#12").touch()
    (root / "empty").mkdir()
    theirs = LocalStore(root)
    for prefix in ("", "odd", "odd/", "odd/in 100%", "empty", "nowhere", "store/live/x"):
        listed = [meta for page in obstore.list(theirs, prefix or None) for meta in page]
        expected = {(one["path"], one["size"], one["last_modified"]) for one in listed}
        found = {(one.address, one.size, one.last_modified) for one in storage.list(prefix)}
        assert found == expected
        rows = [row for batch in storage.batches(prefix) for row in batch.to_pylist()]
        # A run sees what a killed upload left as well.
        left = {row["address"] for row in rows if row["address"].endswith("upload#12")}
        assert left == ({"odd/upload#12"} if prefix in ("", "odd", "odd/") else set())
        shown = [row for row in rows if row["address"] not in left]
        assert {tuple(row[name] for name in LISTED.names) for row in shown} == expected
        parted = obstore.list_with_delimiter(theirs, prefix or None)
        folders, objects = storage.folders(prefix)
        assert sorted(folders) == sorted(parted["common_prefixes"])
        assert {one.address for one in objects} == {one["path"] for one in parted["objects"]}


def test_a_large_folder_comes_in_pieces(
    root: Path, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folder, "LISTED_AT_ONCE", 3)
    for number in range(8):
        (root / "store" / f"{number}").touch()
    batches = list(storage.batches("store"))
    assert [batch.num_rows for batch in batches] == [3, 3, 3]
    assert len({address for batch in batches for address in batch["address"].to_pylist()}) == 9
    assert len(storage.folders("store")[1]) == 8


def test_what_is_no_file_is_no_object(root: Path, storage: ObjectStorage) -> None:
    os.mkfifo(root / "store" / "pipe")
    assert [one.address for one in storage.list("store")] == ["store/live/x"]
    assert storage.folders("store") == (["store/live"], [])


LINKS = ("store/alias", "store/live/alias", "store/live/x2")


@pytest.mark.parametrize("target", ["live", "nowhere", "live/x", ".."])
@pytest.mark.parametrize("link", LINKS)
def test_a_listing_names_a_link(root: Path, storage: ObjectStorage, link: str, target: str) -> None:
    (root / link).symlink_to(root / "store" / target)
    for listing in (storage.list, storage.batches):
        with pytest.raises(UnsafeFolder, match=link):
            list(listing("store"))
    with pytest.raises(UnsafeFolder, match=link):
        storage.folders(link.rpartition("/")[0])


def test_a_link_on_the_way_to_a_listing(root: Path, outside: Path, storage: ObjectStorage) -> None:
    (root / "store" / "alias").symlink_to(outside.parent)
    with pytest.raises(UnsafeFolder, match="store/alias"):
        list(storage.list("store/alias/outside"))
    with pytest.raises(UnsafeFolder, match="store/alias"):
        storage.folders("store/alias")


def test_the_folder_itself_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    found = LocalFolder(tmp_path / "alias")
    assert [files.addresses for files in found.files()] == [["store/live/x"]]
    found.delete(["store/live/x"])
    assert not (root / "store/live/x").exists()


CHANGES: dict[str, Callable[[ObjectStorage], None]] = {
    "delete": lambda storage: storage.delete("store/alias/x"),
    "delete a page": lambda storage: storage.delete_page(["store/live/y", "store/alias/x"]),
    "delete a large page": lambda storage: storage.delete_page(
        ["store/alias/x", *(f"store/alias/{number}" for number in range(100))]
    ),
    "move away": lambda storage: storage.move("store/alias/x", "store/y", size=4),
    "move there": lambda storage: storage.move("store/live/x", "store/alias/x", size=4),
    "move below": lambda storage: storage.move("store/live/x", "store/alias/new/x", size=4),
    "copy away": lambda storage: storage.copy("store/alias/x", "store/y"),
    "copy there": lambda storage: storage.copy("store/live/x", "store/alias/y"),
    "flush": lambda storage: storage.flush(["store/alias/x"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_through_a_link(
    root: Path, outside: Path, storage: ObjectStorage, change: str
) -> None:
    (root / "store" / "alias").symlink_to(outside)
    with pytest.raises(UnsafeFolder, match="store/alias"):
        CHANGES[change](storage)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"x": b"kept"}
    assert (root / "store/live/x").read_bytes() == b"live"


def test_a_copy_is_a_file_of_its_own_and_written_now(root: Path, storage: ObjectStorage) -> None:
    os.utime(root / "store/live/x", (0, 0))
    storage.copy("store/live/x", "store/new/y")
    original, copied = ((root / "store" / name).stat() for name in ("live/x", "new/y"))
    assert original.st_ino != copied.st_ino
    assert original.st_mtime == 0
    assert copied.st_mtime > 0
    assert (root / "store/new/y").read_bytes() == b"live"


def test_only_a_folder_in_which_nothing_is_is_dropped(
    root: Path, outside: Path, storage: ObjectStorage
) -> None:
    (root / "store" / "empty").mkdir()
    (root / "store" / "link").symlink_to(outside)
    for folder in ("store/empty", "store/live/", "store/live/x", "store/link", "store/none"):
        storage.drop_folder(folder)
    assert sorted(path.name for path in (root / "store").iterdir()) == ["link", "live"]
    assert (root / "store/live/x").read_bytes() == b"live"


def test_a_copy_that_fails_leaves_what_was_there(
    root: Path, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("store/y", b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(local_folder, "copyfileobj", full)
    with pytest.raises(OutOfSpace):
        storage.copy("store/live/x", "store/y")
    assert sorted(path.name for path in (root / "store").iterdir()) == ["live", "y"]
    assert (root / "store/y").read_bytes() == b"before"


def test_a_link_in_the_place_of_a_file(root: Path, outside: Path, storage: ObjectStorage) -> None:
    (root / "store" / "y").symlink_to(outside / "x")
    before = (outside / "x").stat()
    with pytest.raises(UnsafeFolder, match="store/y"):
        storage.move("store/y", "store/z", size=4, fresh=datetime.now(UTC))
    with pytest.raises(UnsafeFolder, match="store/y"):
        storage.flush(["store/y"])
    storage.delete("store/y")
    assert not (root / "store" / "y").is_symlink()
    assert (outside / "x").read_bytes() == b"kept"
    assert (outside / "x").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("many", [1, 100])
def test_a_link_that_is_put_there_between_check_and_use(
    root: Path,
    outside: Path,
    storage: ObjectStorage,
    monkeypatch: pytest.MonkeyPatch,
    many: int,
) -> None:
    """The files that are deleted are those of the folder that was reached."""
    unlink = os.unlink
    for number in range(many):
        (root / "store" / "live" / f"{number}").touch()
        (outside / f"{number}").touch()

    def swapped(name: str, *, dir_fd: int | None = None) -> None:
        if (root / "store" / "live").is_dir() and not (root / "store" / "live").is_symlink():
            (root / "store" / "live").rename(root / "was")
            (root / "store" / "live").symlink_to(outside)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(local_folder, "UNLINKERS", 1)
    monkeypatch.setattr(os, "unlink", swapped)
    storage.delete_page([f"store/live/{number}" for number in range(many)])
    assert len(list(outside.iterdir())) == many + 1
    assert [path.name for path in (root / "was").iterdir()] == ["x"]


def test_a_mount_inside_is_named(
    root: Path, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstat = os.fstat

    def elsewhere(handle: int) -> os.stat_result:
        found = list(fstat(handle))
        found[stat.ST_DEV] += 1
        return os.stat_result(found)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", elsewhere)
        with pytest.raises(UnsafeFolder, match="store/live' is a mount"):
            list(storage.batches("store"))
        assert storage.folders() == (["store"], [])


DATES = [
    datetime(999, 12, 31, tzinfo=UTC),
    datetime(1000, 1, 1, tzinfo=UTC),
    datetime(8999, 12, 31, tzinfo=UTC),
    datetime(9000, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("date", [-(10**11), *(int(date.timestamp()) for date in DATES), 2**38])
def test_a_file_dated_in_a_year_that_is_none(
    root: Path, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch, date: int
) -> None:
    real = os.stat

    # Not every file system keeps such dates.
    def dated(*given: Any, **named: Any) -> os.stat_result:
        found = real(*given, **named)
        if not stat.S_ISREG(found.st_mode):
            return found
        times = {"st_mtime_ns": date * 10**9}
        return os.stat_result(found[: os.stat_result.n_sequence_fields], times)

    looks: Sequence[Callable[[], object]] = (
        lambda: [batch.to_pylist() for batch in storage.batches("store")],
        lambda: list(storage.list("store")),
        lambda: storage.folders("store/live"),
        lambda: storage.head("store/live/x"),
    )
    monkeypatch.setattr(os, "stat", dated)
    for look in looks:
        if DATES[1].timestamp() <= date < DATES[3].timestamp():
            look()
        else:
            with pytest.raises(UnsafeFolder, match="'store/live/x' is dated"):
                look()


@pytest.mark.parametrize("address", ["", "store/../x", "store//x", "/x", "store/", "./x"])
def test_what_is_no_address(storage: ObjectStorage, address: str) -> None:
    with pytest.raises(InvalidInput):
        storage.delete(address)
    with pytest.raises(InvalidInput):
        storage.delete_page([address])
    with pytest.raises(InvalidInput):
        storage.move("store/live/x", address, size=4)


def test_a_folder_that_is_away(root: Path, storage: ObjectStorage) -> None:
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(StorageUnavailable, match="does not exist"):
        list(storage.list("store"))
    with pytest.raises(StorageUnavailable, match="does not exist"):
        storage.delete("store/live/x")
    with pytest.raises(StorageUnavailable, match="does not exist"):
        storage.delete_page(["store/live/x"])


def test_files_are_listed_as_they_are_on_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that lie beside each other come one after the other, in stretches of many."""
    for number in range(50):
        (root / "store" / f"{number * 37 % 50:02}").touch()
    folder = LocalFolder(root)

    def places() -> list[int]:
        addresses = [address for files in folder.files("store") for address in files.addresses]
        assert len({*addresses}) == len(addresses) == 51
        return [(root / address).stat().st_ino for address in addresses if "live" not in address]

    assert places() == sorted(places())
    monkeypatch.setattr(local_folder, "SORTED_AT_ONCE", 7)
    with os.scandir(root / "store") as entries:
        given = [(entry.inode(), entry.is_file()) for entry in entries]
    stretches = [sorted(given[first : first + 7]) for first in range(0, len(given), 7)]
    assert places() == [inode for each in stretches for inode, is_file in each if is_file]


def test_what_changes_while_it_is_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All names are read first; what is looked at is what is there then."""
    for name in ("gone", "longer", "folder", "later"):
        (root / "store" / name).write_bytes(b"x")
    by_place = local_folder._in_disk_order

    def changed(handle: int, low: str, high: str) -> Iterator[Sequence[str]]:
        names = [*by_place(handle, low, high)]
        if (root / "store" / "gone").exists():
            (root / "store" / "gone").unlink()
            (root / "store" / "longer").write_bytes(b"xyz")
            (root / "store" / "folder").unlink()
            (root / "store" / "folder").mkdir()
            (root / "store" / "folder" / "within").write_bytes(b"xy")
        yield from names

    monkeypatch.setattr(local_folder, "_in_disk_order", changed)
    [files] = LocalFolder(root).files("store")
    assert dict(zip(files.addresses, files.sizes, strict=True)) == {
        "store/live/x": 4,
        "store/longer": 3,
        "store/folder/within": 2,
        "store/later": 1,
    }


def test_a_link_that_comes_while_it_is_listed_is_refused(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_place = local_folder._in_disk_order

    def changed(handle: int, low: str, high: str) -> Iterator[Sequence[str]]:
        names = [*by_place(handle, low, high)]
        if (root / "store" / "live").is_dir() and not (root / "store" / "live").is_symlink():
            (root / "store" / "live").rename(root / "store" / "moved")
            (root / "store" / "live").symlink_to(outside, target_is_directory=True)
        yield from names

    monkeypatch.setattr(local_folder, "_in_disk_order", changed)
    with pytest.raises(UnsafeFolder, match="is a link"):
        [*LocalFolder(root).files("store")]

"""Mounts inside a storage folder, by which a file has a second name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from reclaim.errors import UnsafeFolder
from reclaim.storage import ObjectStorage, mounts

pytestmark = pytest.mark.fast

BOUND = """
    from pathlib import Path
    import subprocess, sys
    from reclaim.errors import UnsafeFolder
    from reclaim.storage import ObjectStorage

    root = Path(sys.argv[1])
    subprocess.run(["mount", "--bind", root / sys.argv[2], root / sys.argv[3]], check=True)
    storage = ObjectStorage.open(root.as_uri())
    try:
        listed = [row.address for row in storage.list(sys.argv[4])]
    except UnsafeFolder as error:
        print(error.message)
    else:
        print(listed)
"""


def can_mount() -> bool:
    tried = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(tried, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def line(source: str, point: str, device: str = "8:1") -> str:
    return f"63 43 {device} {source} {point} rw,relatime shared:1 - ext4 /dev/sda1 rw\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("store/main", "store/alias", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "store" / "main" / "x").write_bytes(b"live")
    return tmp_path


@pytest.fixture
def table(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = root.parent / f"{root.name}-mounts"
    monkeypatch.setattr(mounts, "TABLE", table)
    return table


def is_refused(root: Path, listed: str) -> bool:
    storage = ObjectStorage.open(root.as_uri())
    refusals = 0
    for look in (storage.batches, storage.list, storage.folders):
        try:
            list(look(listed))
        except UnsafeFolder:
            refusals += 1
    assert refusals in (0, 3)
    return refusals == 3


@pytest.mark.skipif(not can_mount(), reason="this machine does not let us mount; see below")
@pytest.mark.parametrize(
    ("source", "point", "listed", "said"),
    [
        ("store/main", "store/alias", "store", "alias' is a mount inside"),
        ("store/main", "store/alias", "store/alias", "alias' is a mount inside"),
        ("store/main", "store/alias", "store/main", "['store/main/x']"),
        ("store", "other", "other", "other' are mounts that show the same files"),
        ("store/main/x", "store/alias/y", "store", "y' is a mount inside"),
    ],
)
def test_a_bind_mount(root: Path, source: str, point: str, listed: str, said: str) -> None:
    (root / "store" / "alias" / "y").touch()
    code = ["unshare", "--mount", sys.executable, "-c", dedent(BOUND)]
    done = subprocess.run(
        [*code, str(root), source, point, listed], check=True, capture_output=True, text=True
    )
    assert said in done.stdout


@pytest.mark.parametrize(
    ("point", "listed", "refused"),
    [
        ("store/alias", "store", True),
        ("store/alias", "", True),
        ("store/alias/deep", "store/alias", True),
        ("store/alias", "store/alias/part", True),
        ("store/alias", "store/main", False),
        ("store/ali", "store/alias", False),
        ("other/x", "store", False),
    ],
)
def test_a_mount_is_refused_where_a_listing_meets_it(
    root: Path, table: Path, point: str, listed: str, refused: bool
) -> None:
    table.write_text(line("/", "/") + line("/elsewhere", f"{root}/{point}"))
    assert is_refused(root, listed) == refused


def test_folders_directly_below_may_be_mounts_that_have_no_file_in_common(
    root: Path, table: Path
) -> None:
    whole = line("/", "/")
    store, other = f"{root}/store", f"{root}/other"
    for two, refused in (
        (line("/a", store) + line("/b", other), False),
        (line("/a", store) + line("/a", other, "8:2"), False),
        (line("/", store, "8:2") + line("/", other, "8:2"), True),
        (line("/a", store) + line("/a/b", other), True),
        (line("/ab", store) + line("/a", other), False),
        # What hides another mount counts.
        (line("/a", store) + line("/a", other) + line("/b", other), False),
        (line(store, other), True),
    ):
        table.write_text(whole + two)
        assert is_refused(root, "other") == refused, two


def test_names_with_spaces(tmp_path: Path, table: Path) -> None:
    root = tmp_path / "a b\\c"
    (root / "store").mkdir(parents=True)
    escaped = str(root).replace("\\", "\\134").replace(" ", "\\040")
    table.write_text(line("/", f"{escaped}/store/d\\040e"))
    with pytest.raises(UnsafeFolder, match="d e' is a mount"):
        list(ObjectStorage.open(root.as_uri()).list("store"))


def test_a_storage_that_is_reached_through_a_link(root: Path, table: Path) -> None:
    link = root.parent / f"{root.name}-link"
    link.symlink_to(root)
    table.write_text(line("/elsewhere", f"{os.path.realpath(root)}/store/alias"))
    with pytest.raises(UnsafeFolder, match="alias' is a mount"):
        mounts.check_mounts(link, "store")


def test_a_system_without_a_table_of_mounts(root: Path, table: Path) -> None:
    assert not table.exists()
    assert not is_refused(root, "store")

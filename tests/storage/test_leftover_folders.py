"""Folders that a bucket lists although nothing is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.storage import ObjectStorage, is_leftover

pytestmark = pytest.mark.fast


def test_a_folder_of_objects_that_are_gone() -> None:
    storage = ObjectStorage.open("memory://")
    storage.put("folder/inside/object", b"x")
    storage.put("folder-beside", b"x")
    assert not is_leftover(storage, "folder")
    assert not is_leftover(storage, "folder/")
    storage.delete("folder/inside/object")
    assert is_leftover(storage, "folder")


def test_a_folder_on_a_disk_is_there(tmp_path: Path) -> None:
    storage = ObjectStorage.open(tmp_path.as_uri())
    (tmp_path / "folder").mkdir()
    assert not is_leftover(storage, "folder")

"""The class archive: where it is, when it is used, and that nothing that is wrong with it hurts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reclaim.engine.base import Engine
from reclaim.engine.spark import class_archive_writer
from reclaim.engine.spark.class_archive import (
    FOLDER_VARIABLES,
    HARMLESS,
    OFF,
    VARIABLE,
    ClassArchive,
)
from reclaim.engine.spark.class_archive_writer import make_archive

OPTIONS = "-XX:TieredStopAtLevel=1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the archives."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(folder: Path) -> ClassArchive:
    """The archive of this Java and Spark, which is not there."""
    found = ClassArchive.find()
    assert found is not None
    assert found.file.parent == folder
    return found


def _make(archive: ClassArchive) -> None:
    archive.file.parent.mkdir(mode=0o700)
    archive.file.write_bytes(b"classes")
    archive.file.chmod(0o600)
    archive.length.write_text("7")


def test_it_is_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    for cache, folder in (
        (str(tmp_path / "elsewhere"), tmp_path / "elsewhere" / "reclaim"),
        ("relative", tmp_path / ".cache" / "reclaim"),
        ("", tmp_path / ".cache" / "reclaim"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        found = ClassArchive.find()
        assert found is not None
        assert found.file.parent == folder


@pytest.mark.parametrize("value", [OFF, "OFF", 'a "folder"', "a\nfolder"])
def test_there_is_none_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert ClassArchive.find() is None


@pytest.mark.parametrize("variable", FOLDER_VARIABLES)
def test_there_is_none_where_java_would_make_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Of a class path with folders in it."""
    monkeypatch.setenv(variable, str(folder))
    assert ClassArchive.find() is None
    monkeypatch.delenv(variable)
    monkeypatch.setenv("SPARK_HOME", str(folder))
    (folder / "conf").mkdir(parents=True)
    assert ClassArchive.find() is not None
    (folder / "conf" / "spark-defaults.conf").touch()
    assert ClassArchive.find() is None


def test_another_java_or_spark_has_another_one(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = {archive.file.name}
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    for version in ("21.0.1", "21.0.2"):
        (tmp_path / "java" / "release").write_text(f'JAVA_VERSION="{version}"\n')
        found = ClassArchive.find()
        assert found is not None
        assert version in found.file.name
        names.add(found.file.name)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for jar in ("a.jar", "b.jar"):
        (tmp_path / "spark" / "jars" / jar).touch()
        found = ClassArchive.find()
        assert found is not None
        names.add(found.file.name)
    assert len(names) == 5


def test_it_is_used_when_it_is_there(archive: ClassArchive) -> None:
    assert archive.options_to_use(OPTIONS) == OPTIONS
    _make(archive)
    used = archive.options_to_use(OPTIONS)
    assert used.startswith(f'{OPTIONS} "-XX:SharedArchiveFile={archive.file}" ')
    assert used.endswith(" ".join(HARMLESS))


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=own.jsa"])
def test_options_of_the_user_go_before_it(archive: ClassArchive, option: str) -> None:
    _make(archive)
    assert archive.options_to_use(option) == option


def test_one_that_is_cut_off_is_not_used(archive: ClassArchive) -> None:
    """Java would end."""
    _make(archive)
    os.truncate(archive.file, 3)
    assert not archive.exists
    archive.file.write_bytes(b"classes")
    assert archive.exists
    archive.length.unlink()
    assert not archive.exists


def test_one_that_others_can_write_is_not_used(archive: ClassArchive) -> None:
    """Java would run what is in it."""
    _make(archive)
    for path in (archive.file, archive.file.parent):
        before = path.stat().st_mode
        path.chmod(0o777)
        assert archive.options_to_use(OPTIONS) == OPTIONS
        path.chmod(before)
    assert archive.exists


@pytest.mark.parametrize("content", [None, b"", b"x" * 100_000])
def test_java_goes_on_without_one_that_does_not_fit(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "archive.jsa"
    if content is not None:
        file.write_bytes(content)
    java_command = shutil.which("java")
    assert java_command
    done = subprocess.run(
        [java_command, f"-XX:SharedArchiveFile={file}", *HARMLESS, "-version"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def _no_work(_engine: Engine, _folder: Path) -> None:
    pass


def _written(_archive: ClassArchive, file: Path, _workload: object) -> None:
    file.write_bytes(b"classes")


def test_it_is_made_once_and_gets_its_name_when_it_is_whole(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def write(archive: ClassArchive, file: Path, workload: object) -> None:
        seen.append((archive.exists, file.parent.parent))
        _written(archive, file, workload)

    monkeypatch.setattr(class_archive_writer, "_write", write)
    assert make_archive(archive, _no_work)
    assert make_archive(archive, _no_work)
    assert seen == [(False, archive.file.parent)]
    assert {path.suffix for path in archive.file.parent.iterdir()} == {".jsa", ".length"}
    assert archive.exists


def test_one_that_fails_leaves_nothing(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(class_archive_writer, "_write", fail)
    with pytest.raises(OSError, match="no space"):
        make_archive(archive, _no_work)
    assert not list(archive.file.parent.iterdir())


def test_old_ones_are_removed_when_another_is_made(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive_writer, "_write", _written)
    archive.file.parent.mkdir(mode=0o700)
    recent, unused = (archive.file.with_name(f"spark-{name}.jsa") for name in ("a", "b"))
    for path in (recent, unused):
        path.touch()
    os.utime(unused, (0, 0))
    assert make_archive(archive, _no_work)
    assert recent.exists()
    assert not unused.exists()


def test_a_cache_that_cannot_be_written_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "cache"))
    found = ClassArchive.find()
    assert found is not None
    assert found.options_to_use(OPTIONS) == OPTIONS
    with pytest.raises(OSError, match="Not a directory"):
        make_archive(found, _no_work)

"""Workers import PySpark from where it was compiled before, if it is the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.engine.spark.daemon import without_archives


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder in which PySpark is installed, with its archives."""
    folder = tmp_path / "site-packages"
    for name in ("pyspark", "py4j"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return folder


def archives(folder: Path) -> list[str]:
    lib = folder / "pyspark" / "python" / "lib"
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip")]


def test_archives_of_the_installed_one_are_left_out(packages: Path, tmp_path: Path) -> None:
    ours = [str(tmp_path), str(packages)]
    assert without_archives([*archives(packages), *ours]) == ours


def test_a_link_to_it_is_the_installed_one(packages: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(packages)
    assert without_archives([*archives(link), str(packages)]) == [str(packages)]


def test_archives_of_another_stay(packages: Path, tmp_path: Path) -> None:
    path = [*archives(tmp_path / "spark"), str(packages)]
    assert without_archives(path) == path


@pytest.mark.parametrize("name", ["pyspark", "py4j"])
def test_without_an_installed_one_they_stay(packages: Path, name: str) -> None:
    (packages / name / "__init__.py").unlink()
    (packages / name).rename(packages / "other")
    path = [*archives(packages), str(packages)]
    assert without_archives(path) == path


def test_other_archives_stay(packages: Path) -> None:
    path = ["/jobs/libraries.zip", *archives(packages), str(packages)]
    assert without_archives(path) == ["/jobs/libraries.zip", str(packages)]

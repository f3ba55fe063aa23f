"""Small repositories of spec 2, checked in for Pythons whose library writes spec 1 only.

Each is an archive of its files, and a document with what the library says of it and collects from a
copy. ``python -m tests.icechunk.samples`` writes them anew; it needs a library that writes spec 2.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import icechunk

from tests.icechunk.repositories import WrittenRepository
from tests.icechunk.world import build_randomly, bury, collected_by_library

FOLDER = Path(__file__).parent / "samples"
NAMES = ("buried", "random", "expired")


def extract(name: str, folder: Path) -> WrittenRepository:
    """A sample in a folder of its own; all of it is old. The library may not be able to open it."""
    target = folder / name
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        archive.extractall(target)
    written = WrittenRepository(target, None)
    written.age()
    return written


def told(name: str) -> dict[str, Any]:
    """What the library said of a sample: ``repo``, and the objects that it collected."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def _build(name: str, written: WrittenRepository) -> None:
    if name == "buried":
        bury(written)
    elif name == "random":
        build_randomly(written, Random(11))
    else:
        ids = [written.write(value) for value in range(4)]
        written.repository.create_tag("v1", ids[0])
        written.repository.create_tag("gone", ids[0])
        written.repository.delete_tag("gone")
        times = {info.id: info.written_at for info in written.repository.ancestry(branch="main")}
        written.repository.expire_snapshots(times[ids[2]])
        written.age()


def write_all() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            written = WrittenRepository.create(Path(folder) / name, 2)
            _build(name, written)
            said = written.repository.inspect_repo_info()
            collected = collected_by_library(written)
            document = {
                "library": icechunk.__version__,
                "repo": {key: value for key, value in said.items() if key != "header"},
                "collected": {folder: sorted(names) for folder, names in collected.items()},
            }
            (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
            with zipfile.ZipFile(FOLDER / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for file in sorted(written.folder.rglob("*")):
                    if file.is_file():
                        archive.write(file, file.relative_to(written.folder))


if __name__ == "__main__":
    icechunk.set_logs_filter("error")
    write_all()

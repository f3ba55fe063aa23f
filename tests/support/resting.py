"""A catalog at rest: what it was at one time, to be brought back here or at another place.

Building a past takes longer than most of what tests do with it. So it is built once a process, and
copied. A copy of a database is not the home of its storage, and a collector would refuse it: who
brings one back registers it, as an operator would after a restore.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reclaim.catalog import Catalog

if TYPE_CHECKING:
    from tests.conftest import Backend


@dataclass(frozen=True)
class RestingFile:
    """A file or a folder of an embedded catalog; of a folder without its contents."""

    path: str
    mode: int
    times: tuple[int, int]
    data: bytes | None


class Resting:
    """The database and the objects of a catalog at one time. It keeps no files of its own."""

    def __init__(self, backend: Backend) -> None:
        """Close every instance of the catalog, and keep what is left."""
        backend.close()
        self._now = backend.clock.now()
        self._files: list[RestingFile] = []
        self._objects: dict[str, bytes] = {}
        self._times: dict[str, datetime] = {}
        self._database = ""
        if backend.postgres is None:
            self._files = list(_files(Path(backend.location)))
        else:
            assert backend.storage is not None
            self._database = backend.postgres.copy_database(
                backend.location, storage=backend.storage
            )
        if backend.storage is not None:
            storage = backend.clocked
            found = list(storage.list())
            self._objects = {one.address: storage.get(one.address) for one in found}
            self._times = {one.address: one.last_modified for one in found}

    def restore(self, backend: Backend) -> Catalog:
        """Bring the catalog back, in the place of the one that is there, and open it."""
        backend.close()
        backend.clock.set(self._now)
        if backend.postgres is None:
            _write(self._files, Path(backend.location))
        else:
            assert backend.storage is not None
            backend.postgres.replace_database(
                backend.location, by=self._database, storage=backend.storage
            )
        if backend.storage is not None:
            self._restore_objects(backend)
        catalog = backend.open()
        catalog.home.register()
        return catalog

    def _restore_objects(self, backend: Backend) -> None:
        storage = backend.clocked
        sizes = {one.address: one.size for one in storage.list()}
        for address in sizes.keys() - self._objects.keys():
            storage.delete(address)
        for address, data in self._objects.items():
            # Objects are written once, so one of the same size is the same; all but the marker
            # of the root, which says the catalog.
            if sizes.get(address) != len(data) or "/" not in address:
                storage.put(address, data)
        storage.date(self._times)


def _files(folder: Path) -> Iterator[RestingFile]:
    for place, _, names in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in names)):
            about = path.stat()
            yield RestingFile(
                str(path.relative_to(folder)),
                about.st_mode & 0o7777,
                (about.st_atime_ns, about.st_mtime_ns),
                None if path.is_dir() else path.read_bytes(),
            )


def _write(files: list[RestingFile], folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    for file in files:
        path = folder / file.path
        if file.data is None:
            path.mkdir(mode=file.mode)
            continue
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=file.mode)
        with os.fdopen(handle, "wb") as opened:
            opened.write(file.data)
        os.utime(path, ns=file.times)

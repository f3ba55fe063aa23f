"""Repositories that the real library writes, on a disk; and what it says of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import icechunk
import zarr

from tests.support.servers import ACCESS_KEY, SECRET_KEY, SeaweedFS

NEWEST_SPEC = 2 if int(icechunk.__version__.split(".")[0]) >= 2 else 1
"""The library that Python 3.11 gets writes spec 1 only."""
SPECS = tuple(range(1, NEWEST_SPEC + 1))
FIRST = "1CECHNKREP0F1RSTCMT0"
"""The snapshot that every repository begins with."""
FOLDERS = ("snapshots", "transactions", "manifests", "chunks")


def bucket_storage(s3: SeaweedFS, bucket: str) -> Callable[[], Any]:
    """Opens a place in a bucket as the library's users do."""
    return partial(
        icechunk.s3_storage,
        bucket=bucket.removeprefix("s3://"),
        prefix="data/repository",
        endpoint_url=s3.endpoint,
        allow_http=True,
        force_path_style=True,
        region="us-east-1",
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
    )


class WrittenRepository:
    """A repository in a folder, as its users work with it."""

    def __init__(
        self, folder: Path, repository: Any, storage: Callable[[], Any] | None = None
    ) -> None:
        self.folder = folder
        self.repository = repository
        self._storage = storage or partial(icechunk.local_filesystem_storage, str(folder))

    @classmethod
    def create(
        cls,
        folder: Path,
        spec: int,
        config: Any = None,
        *,
        storage: Callable[[], Any] | None = None,
    ) -> WrittenRepository:
        """A new one; unless a configuration is given, every chunk is an object."""
        config = config or icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0)
        asked: dict[str, Any] = {"spec_version": spec} if NEWEST_SPEC > 1 else {}
        made = cls(folder, None, storage)
        made.repository = icechunk.Repository.create(made._storage(), config=config, **asked)
        return made

    def reopened(self) -> WrittenRepository:
        opened = icechunk.Repository.open(self._storage())
        return type(self)(self.folder, opened, self._storage)

    @contextmanager
    def session(self, branch: str = "main", message: str = "change") -> Iterator[Any]:
        """The root group of a branch; what is done to it is committed at the end."""
        session = self.repository.writable_session(branch)
        yield zarr.open_group(session.store, mode="a")
        session.commit(message)

    def write(self, value: int, array: str = "a", *, branch: str = "main", chunks: int = 4) -> str:
        """A snapshot in which all chunks of an array have a new value."""
        with self.session(branch, f"{array} = {value}") as group:
            shape = (2 * chunks,)
            group.require_array(array, shape=shape, chunks=(2,), dtype="i4")[...] = value
        return self.tip(branch)

    def tip(self, branch: str = "main") -> str:
        tip: str = self.repository.lookup_branch(branch)
        return tip

    def branch(self, name: str, snapshot: str) -> None:
        self.repository.create_branch(name, snapshot)

    def manifests(self, snapshot: str) -> list[tuple[str, int, int]]:
        """The manifests of a snapshot, as the library lists them: id, size, number of refs."""
        told = self.repository.inspect_snapshot(snapshot)
        listed = (json.loads(told) if isinstance(told, str) else told)["manifests"]
        return [(one["id"], one["size_bytes"], one["num_chunk_refs"]) for one in listed]

    def names(self, folder: str) -> set[str]:
        """The names of the files in a folder."""
        return {file.name for file in (self.folder / folder).glob("*")}

    def objects(self) -> dict[str, set[str]]:
        return {folder: self.names(folder) for folder in FOLDERS}

    def data(self, folder: str, name: str) -> bytes:
        return (self.folder / folder / name).read_bytes()

    def age(self, *, excluding: Collection[str] = ()) -> None:
        """Make files three days old, and those with some names new."""
        now = time.time()
        for folder in FOLDERS:
            for file in self.names(folder):
                changed = now if file in excluding else now - 3 * 86_400
                os.utime(self.folder / folder / file, (changed, changed))

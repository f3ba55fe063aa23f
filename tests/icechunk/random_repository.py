"""Repositories with random pasts, written by the real library: each kind of operation in turn."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import icechunk
import numpy as np
import zarr

from tests.icechunk.repositories import FOLDERS, NEWEST_SPEC, WrittenRepository

INLINE_BYTES = 64
"""Chunks of at most so many bytes are in their manifest."""
CHUNK_ITEMS = 40
"""Random items of a chunk that is an object of its own."""
SPLIT = 3
"""So many chunks of an array are in one manifest."""

# The library that Python 3.11 gets knows no other word for it.
_ACCESS: Any = getattr(getattr(icechunk, "credentials", None), "LocalFileSystemAccess", None)


class RandomRepository:
    """A repository, of which every operation is counted by its kind."""

    def __init__(self, folder: Path, spec: int, seed: int) -> None:
        self._choice = Random(seed)
        self._values = np.random.default_rng(seed)
        self._made = 0
        self.counts: Counter[str] = Counter()
        self._elsewhere = folder / "elsewhere"
        self._elsewhere.mkdir(parents=True)
        (self._elsewhere / "data").write_bytes(bytes(range(64)))
        self.written = WrittenRepository.create(folder / "repository", spec, self._config())
        self.written.repository = self.open(folder / "repository")
        self._operations: dict[str, Callable[[], None]] = {
            "array": self._array,
            "group": self._group,
            "overwrite": self._overwrite,
            "append": self._append,
            "inline": self._inline,
            "virtual": self._virtual,
            "split": self._split,
            "deleted array": self._delete_array,
            "branch": self._branch,
            "deleted branch": self._delete_branch,
            "tag": self._tag,
            "deleted tag": self._delete_tag,
            "reset": self._reset,
            "abandoned": self._abandon,
        }
        # In spec 1 the library refuses to (test_differential.py shows it).
        if spec > 1:
            self._operations["amended"] = self._amend

    def _config(self) -> Any:
        splitting = icechunk.ManifestSplittingConfig.from_dict(
            {
                icechunk.ManifestSplitCondition.AnyArray(): {
                    icechunk.ManifestSplitDimCondition.Any(): SPLIT
                }
            }
        )
        config = icechunk.RepositoryConfig(
            inline_chunk_threshold_bytes=INLINE_BYTES,
            manifest=icechunk.ManifestConfig(splitting=splitting),
        )
        store = icechunk.local_filesystem_store(f"{self._elsewhere}/")
        container = icechunk.VirtualChunkContainer(f"file://{self._elsewhere}/", store)
        config.set_virtual_chunk_container(container)
        return config

    def open(self, folder: Path) -> Any:
        """A repository in a folder, whose virtual chunks may be read."""
        return icechunk.Repository.open(
            icechunk.local_filesystem_storage(str(folder)),
            config=self._config(),
            authorize_virtual_chunk_access={f"file://{self._elsewhere}/": _ACCESS},
        )

    def build(self, rounds: int) -> None:
        """Do something of each kind so often, in an order of chance; all is old then, or most."""
        self._array()
        for _ in range(rounds):
            deck = list(self._operations)
            self._choice.shuffle(deck)
            for kind in deck:
                self._operations[kind]()
                self.counts[kind] += 1
        self._age()

    def _age(self) -> None:
        """Make files three days old, but for some of those that are no snapshots."""
        now = time.time()
        for folder in FOLDERS:
            for name in sorted(self.written.names(folder)):
                is_young = folder != "snapshots" and self._choice.random() < 0.05
                changed = now if is_young else now - 3 * 86_400
                os.utime(self.written.folder / folder / name, (changed, changed))

    # Operations

    @property
    def _repository(self) -> Any:
        return self.written.repository

    def _new_name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def _a_branch(self) -> str:
        names: list[str] = sorted(self._repository.list_branches())
        return self._choice.choice(names)

    @contextmanager
    def _session(self) -> Iterator[Any]:
        with self.written.session(self._a_branch(), self._new_name("change ")) as group:
            yield group

    def _random(self, count: int) -> Any:
        return self._values.integers(1, 2**30, count, dtype="i4")

    def _create(self, group: Any, kind: str, chunks: int, items: int = CHUNK_ITEMS) -> None:
        count = chunks * items
        array = group.create_array(
            self._new_name(kind), shape=(count,), chunks=(items,), dtype="i4", compressors=None
        )
        array[...] = self._random(count)

    def _array(self) -> None:
        with self._session() as group:
            self._create(group, "array", self._choice.randint(1, SPLIT))

    def _split(self) -> None:
        with self._session() as group:
            self._create(group, "split", 3 * SPLIT)

    def _inline(self) -> None:
        with self._session() as group:
            self._create(group, "inline", 3, items=INLINE_BYTES // 8)

    def _group(self) -> None:
        with self._session() as group:
            inner = group.require_group(f"{self._new_name('group')}/deep")
            self._create(inner, "array", 1)

    def _virtual(self) -> None:
        with self._session() as group:
            name = self._new_name("virtual")
            group.create_array(name, shape=(8,), chunks=(4,), dtype="i4", compressors=None)
            for number in range(2):
                group.store.set_virtual_ref(
                    f"{name}/c/{number}",
                    f"file://{self._elsewhere}/data",
                    offset=16 * number,
                    length=16,
                    validate_container=True,
                )

    def _native(self, group: Any) -> Any:
        """An array whose chunks are objects; a new one if the branch has none."""
        names = [name for name in sorted(group.array_keys()) if name.startswith(("array", "split"))]
        if not names:
            self._create(group, "array", 2)
            return self._native(group)
        return group[self._choice.choice(names)]

    def _overwrite(self) -> None:
        with self._session() as group:
            array = self._native(group)
            first = self._choice.randrange(array.shape[0] // CHUNK_ITEMS) * CHUNK_ITEMS
            array[first : first + CHUNK_ITEMS] = self._random(CHUNK_ITEMS)

    def _append(self) -> None:
        with self._session() as group:
            self._native(group).append(self._random(CHUNK_ITEMS))

    def _delete_array(self) -> None:
        with self._session() as group:
            del group[self._native(group).basename]

    def _branch(self) -> None:
        name = self._new_name("branch")
        self.written.branch(name, self.written.tip(self._a_branch()))
        with self.written.session(name, f"on {name}") as group:
            self._create(group, "array", 1)

    def _delete_branch(self) -> None:
        others = sorted(self._repository.list_branches() - {"main"})
        if not others:
            self._branch()
            others = sorted(self._repository.list_branches() - {"main"})
        self._repository.delete_branch(self._choice.choice(others))

    def _tag(self) -> None:
        self._repository.create_tag(self._new_name("tag"), self.written.tip(self._a_branch()))

    def _delete_tag(self) -> None:
        if not self._repository.list_tags():
            self._tag()
        self._repository.delete_tag(self._choice.choice(sorted(self._repository.list_tags())))

    def _reset(self) -> None:
        branch = self._a_branch()
        above = [info.id for info in self._repository.ancestry(branch=branch)]
        # Not all of it, or little would be left.
        self._repository.reset_branch(branch, self._choice.choice(above[:3]))

    def _abandon(self) -> None:
        """A snapshot that no branch has; from a library that cannot do that, chunks of none."""
        session = self._repository.writable_session(self._a_branch())
        group = zarr.open_group(session.store, mode="a")
        self._create(group, "array", 2)
        if NEWEST_SPEC > 1:
            session.flush("left")

    def _amend(self) -> None:
        # The first snapshot of all cannot be amended.
        branch = self._a_branch()
        with self.written.session(branch, "to be amended") as group:
            self._create(group, "array", 1)
        session = self._repository.writable_session(branch)
        self._create(zarr.open_group(session.store, mode="a"), "array", 1)
        session.amend("amended")

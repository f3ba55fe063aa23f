"""Folder of a store, accessed without following links or entering other file systems.

Every path is walked from a handle, part by part, and the final operation uses the handle reached:
no link can be inserted between a check and its use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path

from reclaim.clock import to_micros
from reclaim.errors import Conflict, Corrupt, Refused, UnsafeFolder
from reclaim.storage import LastCheck, no_check
from reclaim.storage.local_folder import changed_at
from reclaim.storage.mounts import check_mounts

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags for opening a file: without following a link, and without waiting for a pipe."""
_FOLDER = READ | os.O_DIRECTORY
_PIECE = 1024 * 1024


class StoreFolder:
    """A folder on a disk; addresses are relative to ``root``, the parent of the store's folder."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self._name = name

    @cached_property
    def device(self) -> int:
        """File system required for all files: moves are renames."""
        return (self.root / self._name).stat().st_dev

    def check(self, address: str, status: os.stat_result) -> None:
        """Refuse a link, a file on another file system, or an invalid date."""
        if stat.S_ISLNK(status.st_mode):
            raise UnsafeFolder(
                f"{str(self.root / address)!r} is a link; links in a store are not followed",
                hint="replace the link with its target, or remove it; nothing was deleted",
            )
        if status.st_dev != self.device:
            raise UnsafeFolder(
                f"{str(self.root / address)!r} is on another file system than the store",
                hint="a store must be on a single file system; unmount it, or move it there",
            )
        changed_at(status, address)

    def check_mounts(self, folder: str) -> None:
        """Refuse mounts met by a listing of a folder of the store."""
        check_mounts(self.root / self._name, folder.removeprefix(self._name))

    def status(self, address: str) -> os.stat_result:
        """Status of a file or folder; it and all its parents must be ordinary."""
        folder, name = _split(address)
        with self.open(folder) as handle:
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        self.check(address, status)
        return status

    @contextmanager
    def open(self, folder: str, *, create: bool = False) -> Iterator[int]:
        """Handle of a folder, for calls with a ``dir_fd``."""
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        walked = ""
        try:
            for part in folder.split("/"):
                walked += f"{part}/"
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                self.check(walked.rstrip("/"), os.stat(part, dir_fd=handle, follow_symlinks=False))
                inner = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def rename(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None,
        last_check: LastCheck = no_check,
    ) -> None:
        """Move a directory with its files; never replace an existing target."""
        (source_folder, name), (target_folder, new_name) = _split(source), _split(target)
        with self.open(source_folder) as origin, self.open(target_folder, create=True) as goal:
            with self.open(source) as layer:
                actual = sum(status.st_size for _, status in self._files(layer, source))
            if actual != size:
                raise Corrupt(f"{self.root / source} has {actual} bytes instead of {size}")
            if fresh is not None:
                # Before the move: after a crash, the directory is this new at either address.
                exact = to_micros(fresh) * 1000
                os.utime(name, ns=(exact, exact), dir_fd=origin, follow_symlinks=False)
            try:
                os.stat(new_name, dir_fd=goal, follow_symlinks=False)
            except FileNotFoundError:
                last_check()
                os.rename(name, new_name, src_dir_fd=origin, dst_dir_fd=goal)
                return
        # It was created again, or restored before.
        self.drop_copy(source, target, last_check)

    def drop_copy(self, source: str, target: str, last_check: LastCheck = no_check) -> None:
        """Delete an object with a copy elsewhere; raise ``Conflict`` if they differ."""
        if not self.same(source, target):
            raise Conflict(
                f"{self.root / target} already exists and differs from "
                f"{self.root / source}; both were left",
                hint="check which of the two can be loaded, move the other away, then try again",
            )
        last_check()
        if stat.S_ISDIR(self.status(source).st_mode):
            self.remove(source)
            return
        folder, name = _split(source)
        with self.open(folder) as handle:
            os.unlink(name, dir_fd=handle)

    def remove(self, address: str) -> None:
        """Delete a directory of files.

        The directory is renamed first: after an interruption, no remainder looks like a layer.
        """
        folder, name = _split(address)
        doomed = f".{name}.gone"
        with self.open(folder) as outer:
            with suppress(FileNotFoundError):
                self._empty(outer, doomed)
            os.rename(name, doomed, src_dir_fd=outer, dst_dir_fd=outer)
            self._empty(outer, doomed)

    def _empty(self, outer: int, name: str) -> None:
        """Delete a directory of files in an open folder."""
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=outer)
        try:
            for file in os.listdir(handle):  # noqa: PTH208 - of a handle
                os.unlink(file, dir_fd=handle)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=outer)

    def same(self, first: str, second: str) -> bool:
        """Whether two objects have the same contents, byte by byte."""
        pieces, others = self.contents(first), self.contents(second)
        while True:
            piece = next(pieces, None)
            if piece != next(others, None):
                return False
            if piece is None:
                return True

    def contents(self, address: str) -> Iterator[bytes]:
        """Bytes of a file; for a directory names, sizes and bytes of its files, in order."""
        folder, name = _split(address)
        with ExitStack() as stack:
            outer = stack.enter_context(self.open(folder))
            status = os.stat(name, dir_fd=outer, follow_symlinks=False)
            self.check(address, status)
            if not stat.S_ISDIR(status.st_mode):
                yield from _pieces(outer, name)
                return
            layer = stack.enter_context(self.open(address))
            for file, inside in sorted(self._files(layer, address)):
                yield f"{file}\n{inside.st_size}\n".encode("utf-8", "surrogateescape")
                yield from _pieces(layer, file)

    def facts(self, address: str, status: os.stat_result) -> tuple[int, int]:
        """Size and microsecond of the latest change, of a file or of a directory with its files."""
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size, status.st_mtime_ns // 1000
        size, changed = 0, status.st_mtime_ns
        for _, inside in self._files(f"{self.root}/{address}", address):
            size += inside.st_size
            changed = max(changed, inside.st_mtime_ns)
        return size, changed // 1000

    def _files(self, folder: str | int, address: str) -> Iterator[tuple[str, os.stat_result]]:
        """Files in a layer's directory. Anything else in it is refused."""
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                self.check(f"{address}/{entry.name}", status)
                if not stat.S_ISREG(status.st_mode):
                    raise Refused(
                        f"{str(self.root / address / entry.name)!r} is not a file; the directory "
                        "of a layer must contain only files",
                        hint="move it out of the store; nothing was deleted",
                    )
                yield entry.name, status


def _pieces(handle: int, name: str) -> Iterator[bytes]:
    with open(os.open(name, READ, dir_fd=handle), "rb", buffering=0) as file:  # noqa: PTH123
        while piece := file.read(_PIECE):
            yield piece


def _split(address: str) -> tuple[str, str]:
    folder, _, name = address.rpartition("/")
    return folder, name

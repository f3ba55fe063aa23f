"""A folder on a disk, accessed without following links.

Every path is walked from a handle on the folder, part by part, and the last step uses the handle
reached. So nobody can insert a link between check and use. Links are refused by name, on a path and
in listings; listings also refuse mounts, and files with invalid dates. The folder itself may be
reached through links, and its direct subfolders may be mounts.
"""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from secrets import randbits
from shutil import copyfileobj
from typing import NamedTuple

from reclaim.clock import to_micros
from reclaim.errors import Corrupt, InvalidInput, StorageUnavailable, UnsafeFolder
from reclaim.storage.base import LastCheck, no_check
from reclaim.storage.key_range import KeyRange
from reclaim.storage.mounts import check_mounts

LISTED_AT_ONCE = 10_000
SORTED_AT_ONCE = 250_000
"""Files of a folder sorted by position on disk at a time."""
COPIED_AT_ONCE = 1 << 20
"""Bytes."""
UNLINKERS = 8
SHARED = 32
"""Least number of files in a folder worth deleting with several threads."""

FIRST_DATE, LAST_DATE = (to_micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (1000, 9000))
"""Bounds of valid file dates: any margin can be added to them without overflow."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NO_NAMES = frozenset(("", ".", ".."))
_UPLOAD = re.compile(r"#[0-9]+$")
"""The suffix of a file name during an upload; leftovers of killed uploads keep it. Only listings
for runs show such files."""


class Files(NamedTuple):
    """Files as columns: address, size, and time of the last change in microseconds."""

    addresses: list[str]
    sizes: list[int]
    changed: list[int]


class LocalFolder:
    """A folder; addresses are relative paths with ``/`` as separator."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self, folder: str = "", *, create: bool = False) -> Iterator[int]:
        """Open a handle on a subfolder, for calls with ``dir_fd``."""
        handle = self._walk(folder, create=create)
        try:
            yield handle
        finally:
            os.close(handle)

    def files(
        self, folder: str = "", *, after: str = "", until: str = "", uploads: bool = False
    ) -> Iterator[Files]:
        """Yield every file below a folder, with its folders; a few thousand at a time.

        With ``uploads``, also unfinished uploads.

        Anything but files and folders, such as a socket, is left out, and so are files deleted
        during the listing. Outside the boundaries (see ``KeyRange``) only names are read.
        """
        listed = Files([], [], [])
        keys = KeyRange(folder.strip("/"), after, until)
        check_mounts(self.path, keys.prefix, inner_allowed=True)
        waiting = [keys.prefix]
        while waiting:
            with suppress(FileNotFoundError, NotADirectoryError):
                yield from self._scan(waiting.pop(), listed, waiting, keys, uploads=uploads)
        if listed.addresses:
            yield listed

    def inside(self, folder: str = "") -> tuple[list[str], Files]:
        """Return the folders and the files directly below a folder."""
        whole, remainder = Files([], [], []), Files([], [], [])
        folders: list[str] = []
        within = folder.strip("/")
        check_mounts(self.path, within, inner_allowed=True)
        with suppress(FileNotFoundError, NotADirectoryError):
            for listed in chain(
                self._scan(within, remainder, folders, KeyRange(within)), [remainder]
            ):
                whole.addresses.extend(listed.addresses)
                whole.sizes.extend(listed.sizes)
                whole.changed.extend(listed.changed)
        return sorted(folders), whole

    def status(self, address: str) -> os.stat_result:
        """Return the system's status of a file."""
        folder, name = _split(address)
        with self.open(folder) as handle:
            return self._status(handle, address, name)

    def delete(self, addresses: Sequence[str]) -> None:
        """Delete files; missing files count as deleted."""
        folders: dict[str, list[str]] = {}
        for address in addresses:
            folder, name = _split(address)
            folders.setdefault(folder, []).append(name)
        # On a disk a delete is a wait, and threads wait in parallel.
        work: list[Callable[[], None]] = []
        for folder, names in folders.items():
            if len(names) < SHARED:
                work.append(partial(self._delete, folder, names))
                continue
            with suppress(FileNotFoundError), self.open(folder) as handle:
                for first in range(UNLINKERS):
                    # Each thread has a handle of its own: this handle may be closed while they
                    # still work.
                    work.append(partial(_unlink, os.dup(handle), names[first::UNLINKERS]))
        if len(work) == 1:
            work[0]()
            return
        for _ in _unlinkers().map(lambda each: each(), work):
            pass

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        """Rename a file of this size; with ``fresh`` it counts as written at this time."""
        (old_folder, name), (new_folder, new_name) = _split(source), _split(target)
        with self.open(old_folder) as origin:
            actual = self._status(origin, source, name).st_size
            if actual != size:
                raise Corrupt(f"{self.path / source} has {actual} bytes instead of {size}")
            if fresh is not None:
                # Before the move: wherever the file is after a crash, it is not older than this.
                exact = to_micros(fresh) * 1000
                os.utime(name, ns=(exact, exact), dir_fd=origin, follow_symlinks=False)
            with self.open(new_folder, create=True) as goal:
                last_check()
                os.rename(name, new_name, src_dir_fd=origin, dst_dir_fd=goal)

    def copy(self, source: str, target: str) -> None:
        """Copy the bytes of a file, replacing an existing target.

        The copy is an independent file, written now. A hard link would share the original's age,
        and later changes of the time used to identify files.
        """
        (old_folder, name), (new_folder, new_name) = _split(source), _split(target)
        upload = f"{new_name}#{randbits(63)}"
        with self.open(old_folder) as origin, self.open(new_folder, create=True) as goal:
            self._status(origin, source, name)
            read = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=origin)
            with os.fdopen(read, "rb") as original:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                write = os.open(upload, flags, 0o666, dir_fd=goal)
                try:
                    with os.fdopen(write, "wb") as copied:
                        copyfileobj(original, copied, COPIED_AT_ONCE)
                    os.rename(upload, new_name, src_dir_fd=goal, dst_dir_fd=goal)
                except BaseException:
                    os.unlink(upload, dir_fd=goal)
                    raise

    def drop_folder(self, folder: str) -> None:
        """Remove a folder, if it is empty."""
        above, name = _split(folder.rstrip("/"))
        # The system refuses to remove a folder with contents, or a file.
        with suppress(OSError), self.open(above) as handle:
            os.rmdir(name, dir_fd=handle)

    def flush(self, address: str) -> None:
        """Make a file survive a power cut, but not the folders above it."""
        folder, name = _split(address)
        with self.open(folder) as handle:
            self._status(handle, address, name)
            _fsync(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=handle))

    def flush_folder(self, folder: str) -> None:
        """Make the names in a folder survive a power cut."""
        with self.open(folder) as handle:
            os.fsync(handle)

    def _walk(self, folder: str, *, create: bool = False) -> int:
        """Return a handle on a folder, reached without links."""
        parts = _parts(folder) if folder else []
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError as error:
            # Not a NotFound: an unreachable object must not count as deleted.
            raise StorageUnavailable(
                f"the storage folder {self.path} does not exist",
                hint="mount or restore it, then try again",
            ) from error
        for depth, part in enumerate(parts):
            try:
                inner = self._step(handle, "/".join(parts[: depth + 1]), part, create=create)
            finally:
                os.close(handle)
            handle = inner
        return handle

    def _step(self, handle: int, address: str, name: str, *, create: bool) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=handle)
        except FileNotFoundError:
            if not create:
                raise
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=handle)
            return os.open(name, _FOLDER, dir_fd=handle)
        except OSError:
            # The error for a link differs between systems.
            if stat.S_ISLNK(os.lstat(name, dir_fd=handle).st_mode):
                raise self._link(address) from None
            raise

    def _scan(
        self,
        folder: str,
        listed: Files,
        folders: list[str],
        keys: KeyRange,
        *,
        uploads: bool = False,
    ) -> Iterator[Files]:
        """Add the files and folders in a folder; yield the files whenever there are many."""
        addresses, sizes, changed = listed
        before = f"{folder}/" if folder else ""
        boundaries = keys.names(before)
        if boundaries is None:
            return
        low, high = boundaries
        handle = self._walk(folder)
        try:
            device = os.fstat(handle).st_dev
            for name in chain.from_iterable(_in_disk_order(handle, low, high)):
                try:
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                kind = stat.S_IFMT(status.st_mode)
                if kind == stat.S_IFREG:
                    if name <= low or ("#" in name and not uploads and _UPLOAD.search(name)):
                        continue
                    addresses.append(before + name)
                    sizes.append(status.st_size)
                    changed.append(changed_at(status, before + name))
                    if len(addresses) == LISTED_AT_ONCE:
                        yield Files(addresses.copy(), sizes.copy(), changed.copy())
                        for column in listed:
                            column.clear()
                elif kind == stat.S_IFDIR:
                    if folder and status.st_dev != device:
                        raise self._mount(before + name)
                    folders.append(before + name)
                elif kind == stat.S_IFLNK:
                    raise self._link(before + name)
        finally:
            os.close(handle)

    def _status(self, handle: int, address: str, name: str) -> os.stat_result:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise self._link(address)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(f"{self.path / address} is not a file")
        return status

    def _delete(self, folder: str, names: Sequence[str]) -> None:
        with suppress(FileNotFoundError):
            _unlink(self._walk(folder), names)

    def _link(self, address: str) -> UnsafeFolder:
        return UnsafeFolder(
            f"{str(self.path / address)!r} is a link; files in a storage folder must have a "
            "single name",
            hint="remove the link, or replace it with its target, then run it again; "
            "nothing was deleted through it",
        )

    def _mount(self, address: str) -> UnsafeFolder:
        return UnsafeFolder(
            f"{str(self.path / address)!r} is a mount of another file system inside the storage",
            hint="mount the storage as a whole; nothing was deleted there",
        )


def _in_disk_order(handle: int, low: str, high: str) -> Iterator[Sequence[str]]:
    """Return the names in a folder within boundaries, in the order of the files on the disk.

    The system lists names in another order. Reading neighbours one after the other is faster, and
    they are deleted in the order of the listing. A file renamed meanwhile may be missed, like a
    file created meanwhile.
    """
    names: list[str] = []
    places = array("Q")
    with os.scandir(handle) as entries:
        for entry in entries:
            name = entry.name
            # A folder whose name is before the boundary may hold keys after it.
            if (name <= low and not low.startswith(name)) or (high and name > high):
                continue
            names.append(name)
            places.append(entry.inode())
            if len(names) == SORTED_AT_ONCE:
                yield [names[at] for at in sorted(range(len(names)), key=places.__getitem__)]
                names, places = [], array("Q")
    yield [names[at] for at in sorted(range(len(names)), key=places.__getitem__)]


def changed_at(status: os.stat_result, address: str) -> int:
    """Return the microsecond of a file's last change. An invalid date is refused."""
    changed = status.st_mtime_ns // 1000
    if not FIRST_DATE <= changed < LAST_DATE:
        raise UnsafeFolder(
            f"the file {address!r} is dated {changed // 1_000_000} seconds after 1970, which is "
            "not between the years 1000 and 9000",
            hint="set its date with `touch`, or remove it; nothing was deleted",
        )
    return changed


def address_text(address: str) -> str:
    """Return an address as text; ``�`` replaces invalid UTF-8, and makes the address odd."""
    return address.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _split(address: str) -> tuple[str, str]:
    """Return the folder of a file, and its name."""
    folder, slash, name = address.rpartition("/")
    if name in _NO_NAMES or (slash and not folder):
        raise _invalid(address)
    return folder, name


def _parts(folder: str) -> Sequence[str]:
    parts = folder.split("/")
    if not _NO_NAMES.isdisjoint(parts):
        raise _invalid(folder)
    return parts


def _invalid(address: str) -> InvalidInput:
    return InvalidInput(f"{address!r} is not a valid address in a storage folder")


@lru_cache(maxsize=1)
def _unlinkers() -> ThreadPoolExecutor:
    """Return the threads of this process for deletes, started on first use."""
    return ThreadPoolExecutor(UNLINKERS, thread_name_prefix="reclaim-unlink")


def _unlink(handle: int, names: Iterable[str]) -> None:
    """Delete files of a folder, and close its handle."""
    try:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _fsync(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

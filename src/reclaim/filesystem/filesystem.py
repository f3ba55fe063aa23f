"""The repositories of a catalog as an fsspec filesystem."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem, make_instance
from fsspec.utils import other_paths, tokenize

from reclaim.catalog import Branch, Catalog, Commit, Entry, ObjectReader, RefPath, RefReader
from reclaim.catalog import Repository as CatalogRepository
from reclaim.catalog.database.locations import database_url
from reclaim.catalog.location import default_location
from reclaim.catalog.names import check_path
from reclaim.errors import InvalidInput, NotFound
from reclaim.filesystem.catalogs import open_catalog
from reclaim.filesystem.files import (
    BranchTransaction,
    ObjectFile,
    StagedFile,
    layered,
    refuse_existing,
    refuse_nested,
)
from reclaim.filesystem.moves import Pair, check_not_below, checked_moves, parse_place, ref_of
from reclaim.filesystem.os_errors import os_error, os_errors

Info = dict[str, Any]


class ReclaimFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The repositories of a catalog as folders.

    ``catalog`` is a location as in ``Catalog.open``; by default the variable ``RECLAIM_CATALOG``,
    or the folder ``.reclaim``. All filesystems of a process on the same location share an open
    catalog, which is closed at the end of the process.

    Empty folders do not exist, so ``mkdir`` and ``rmdir`` do nothing. Listings are not cached.
    """

    protocol = "reclaim"
    transaction_type = BranchTransaction

    def __init__(self, catalog: str | Path | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._url = database_url(default_location() if catalog is None else catalog)

    @property
    def _fs_token(self) -> str:
        return str(tokenize(type(self), self._url))

    def __reduce__(self) -> Any:
        # The default and a relative location may mean another catalog where it is unpickled.
        return make_instance, (type(self), (), {**self.storage_options, "catalog": self._url})

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        stripped = super()._strip_protocol(path)
        return stripped if isinstance(stripped, list) else stripped.lstrip("/")

    def commit(self, path: str, message: str, *, committer: str = "") -> Commit:
        """Commit the staged files of a branch, which is written ``REPO/BRANCH``.

        Errors of the commit are those of ``Branch.commit``, such as ``NothingToCommit``.
        """
        place = parse_place(self._strip_protocol(path))
        if not place.ref or place.path:
            raise InvalidInput(f"{path!r} names no branch", hint="write REPO/BRANCH")
        return self._branch(path, place).commit(message, committer=committer)

    def info(self, path: str, **_options: Any) -> Info:
        path = self._strip_protocol(path)
        place = parse_place(path)
        with os_errors(path, reading=True):
            if not place.repository:
                return _folder(path)
            repository = self._repository(place)
            if not place.ref:
                return _folder(path)
            if not place.path:
                repository.commit(place.ref)
                return _folder(path)
            reader = repository.at(place.ref)
            try:
                return _file(path, reader.stat(place.path))
            except NotFound:
                if not _is_folder(reader, place.path):
                    raise
            return _folder(path)

    def exists(self, path: str, **_options: Any) -> bool:
        return self._kind(path) != ""

    def isfile(self, path: str) -> bool:
        return self._kind(path) == "file"

    def isdir(self, path: str) -> bool:
        return self._kind(path) == "directory"

    def _kind(self, path: str) -> str:
        """The type of a path, empty for a missing path. An outage is still an error."""
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return ""

    def ls(self, path: str, detail: bool = True, **_options: Any) -> list[Any]:
        path = self._strip_protocol(path)
        place = parse_place(path)
        with os_errors(path, reading=True):
            if not place.repository:
                infos = [_folder(repo.name) for repo in self._catalog.repositories()]
            elif not place.ref:
                infos = list(self._refs(path, place))
            else:
                infos = list(self._children(path, place))
        infos.sort(key=lambda info: str(info["name"]))
        return infos if detail else [info["name"] for info in infos]

    def _refs(self, path: str, place: RefPath) -> Iterator[Info]:
        repository = self._repository(place)
        for ref in (*repository.branches(), *repository.tags()):
            name = f"{path}/{quote(ref.name, safe='')}"
            yield {**_folder(name), "ref": ref.kind.value, "commit": ref.commit}

    def _children(self, path: str, place: RefPath) -> Iterator[Info]:
        """The files and folders directly below a folder; of a file only the file."""
        reader = self._reader(place)
        base, prefix = _base(path, place), _prefix(place)
        after = ""
        empty = True
        while True:
            page = reader.list(prefix, delimiter="/", after=after)
            for entry in page.entries:
                yield _file(base + entry.path, entry)
            for folder in page.prefixes:
                yield _folder(base + folder.rstrip("/"))
            empty = empty and not page.entries and not page.prefixes
            after = page.after
            if not after:
                break
        if empty and place.path:
            yield _file(path, reader.stat(place.path))

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **options: Any,
    ) -> Any:
        """Like ``os.walk``. ``omit`` leaves out missing folders; any other error is raised."""
        on_error = _omit_missing if on_error == "omit" else on_error
        return super().walk(path, maxdepth, topdown, on_error, **options)

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: Any,
    ) -> Any:
        """All files below a folder; without a ``maxdepth`` from a single listing of the ref."""
        path = self._strip_protocol(path)
        place = parse_place(path)
        if maxdepth is not None or not place.ref:
            return super().find(path, maxdepth, withdirs, detail, **options)
        infos: dict[str, Info] = {}
        try:
            with os_errors(path, reading=True):
                for info in self._below(path, place):
                    if withdirs or info["type"] == "file":
                        infos.setdefault(info["name"], info)
        except FileNotFoundError as error:
            if infos:
                # A part of a listing does not stand for all of it.
                raise
            _omit_missing(error)
        return dict(sorted(infos.items())) if detail else sorted(infos)

    def _below(self, path: str, place: RefPath) -> Iterator[Info]:
        """All files below a folder, and their folders, with the folder itself."""
        reader = self._reader(place)
        base = _base(path, place)
        folders: set[str] = set()
        for entry in reader.entries(_prefix(place)):
            name = base + entry.path
            yield _file(name, entry)
            folder = name.rpartition("/")[0]
            while folder not in folders and len(folder) >= len(path):
                folders.add(folder)
                yield _folder(folder)
                folder = folder.rpartition("/")[0]
        if not folders:
            yield _file(path, reader.stat(place.path)) if place.path else _folder(path)

    def ukey(self, path: str) -> str:
        """The digest of an object; a hash of its address, size and date where none is known."""
        info = self.info(path)
        return str(info.get("checksum") or tokenize(info))

    def checksum(self, path: str) -> int:
        return int(tokenize(self.ukey(path)), 16)

    def created(self, path: str) -> datetime:
        info = self.info(path)
        if info["type"] != "file":
            raise os_error(errno.EISDIR, "folders have no date", path)
        created: datetime = info["created"]
        return created

    def modified(self, path: str) -> datetime:
        """The date of the entry: new contents are a new entry."""
        return self.created(path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_options: Any
    ) -> bytes:
        """The bytes of a file or of a range, in a single request. Limits are those of a slice."""
        path = self._strip_protocol(path)
        source = self._object(path)
        first, last, _ = slice(start, end).indices(source.entry.size)
        with os_errors(path):
            return source.read(first, last)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        with self.open(path, "xb" if mode == "create" else "wb", **options) as file:
            file.write(value)

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Upload a local file, without a temporary copy unless in a transaction."""
        source = Path(lpath)
        if self._intrans or source.is_dir():
            super().put_file(lpath, rpath, callback, mode, **options)
            return
        size = source.stat().st_size
        path = self._strip_protocol(rpath)
        branch, target = self._target(path)
        callback.set_size(size)
        with os_errors(path):
            if mode == "create":
                refuse_existing(branch, target)
            branch.put(target, source)
        callback.relative_update(size)

    def cp_file(self, path1: str, path2: str, **_options: Any) -> None:
        """Copy an object inside the storage; from another repository through this process."""
        self._refuse_in_transaction("cp_file")
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            return
        branch, target = self._target(path2)
        source = parse_place(path1)
        with os_errors(path1):
            if source.repository == parse_place(path2).repository:
                branch.copy(source.path, target, source_ref=source.ref)
            else:
                with self.open(path1) as file:
                    branch.put(target, file)

    def expand_path(
        self,
        path: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        assume_literal: bool = False,
        **options: Any,
    ) -> Any:
        """Expand globs and folders. The path of a file or folder is literal, and never a glob."""
        names: set[str] = set()
        for given in path if isinstance(path, list | tuple | set) else [path]:
            literal = assume_literal or self._is_literal(given)
            names.update(super().expand_path([given], recursive, maxdepth, literal, **options))
        return sorted(names)

    def _is_literal(self, path: Any) -> bool:
        stripped = self._strip_protocol(path)
        return not has_magic(stripped) or self.exists(stripped)

    def copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        on_error: str | None = None,
        **options: Any,
    ) -> None:
        """Copy files. Leases keep the commits read until the end; a missing file is an error."""
        self._refuse_in_transaction("copy")
        pairs = self._pairs(path1, path2, recursive, maxdepth)
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        with self._leased(sources):
            super().copy(sources, targets, on_error=on_error or "raise", **options)

    def get(self, rpath: Any, lpath: Any, *args: Any, **options: Any) -> None:
        """Download files. Leases keep the commits read until the end."""
        with self._leased(rpath if isinstance(rpath, list) else [rpath]):
            super().get(rpath, lpath, *args, **options)

    @contextmanager
    def _leased(self, paths: Sequence[Any]) -> Iterator[None]:
        """Leases on the commits of paths; none for branches."""
        places = [parse_place(self._strip_protocol(path)) for path in paths]
        with ExitStack() as stack:
            for place in {ref_of(place) for place in places if place.ref}:
                # The lookup of a missing ref, or of a glob, follows.
                with os_errors(f"{place.repository}/{place.ref}"), suppress(NotFound, InvalidInput):
                    repository = self._repository(place)
                    if all(branch.name != place.ref for branch in repository.branches()):
                        stack.enter_context(repository.lease(place.ref))
            yield

    def _pairs(self, path1: Any, path2: Any, recursive: bool, maxdepth: int | None) -> list[Pair]:
        """Sources and targets of a copy or move, with the folders, by the rules of fsspec."""
        targets = path2
        if isinstance(path1, list) and isinstance(path2, list):
            sources = [self._strip_protocol(path) for path in path1]
        else:
            sources = self.expand_path(path1, recursive=recursive, maxdepth=maxdepth)
            is_single = isinstance(path1, str)
            is_glob = is_single and not self._is_literal(path1)
            if is_single and (not recursive or (is_glob and maxdepth is not None)):
                sources = [path for path in sources if not self.isdir(path)]
            if not sources:
                return []
            if isinstance(path2, str):
                into_folder = path2.endswith("/") or self.isdir(path2)
                into_folder &= is_single and not path1.endswith("/")
                if is_glob:
                    into_folder = len(sources) == 1
                targets = other_paths(sources, path2, exists=into_folder, flatten=not is_single)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources, but {len(targets)} targets")
        return list(zip(sources, map(self._strip_protocol, targets), strict=True))

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **_options: Any,
    ) -> None:
        """Move files, each in a transaction on its branch; the files keep their dates.

        Between branches, all files are copied, and then deleted at the source, unless another
        writer has replaced any of them. A move to the same path changes nothing.
        """
        self._refuse_in_transaction("mv")
        if isinstance(path1, str) and isinstance(path2, str):
            old, new = self._strip_protocol(path1), self._strip_protocol(path2)
            if parse_place(old) == parse_place(new):
                return
        is_listed = isinstance(path1, list) and isinstance(path2, list)
        pairs = self._pairs(path1, path2, recursive, maxdepth)
        check_not_below(pairs)
        files = []
        for source, target in pairs:
            if self.info(source)["type"] == "file":
                files.append((source, target))
            elif is_listed or not recursive:
                raise _needs_recursive(source, "move")
        if not pairs:
            raise _needs_recursive(path1, "move")
        self._move_files(checked_moves(files))

    def _move_files(self, moves: list[Pair]) -> None:
        branches = self._branches(path for pair in moves for path in pair)
        for _, target in moves:
            with os_errors(target):
                check_path(parse_place(target).path)
        copied: dict[str, str] = {}
        for source, target in moves:
            old, new = parse_place(source), parse_place(target)
            if ref_of(old) == ref_of(new):
                with os_errors(source):
                    branches[ref_of(old)].move(old.path, new.path)
            else:
                copied[source] = self.info(source)["address"]
                self.cp_file(source, target)
        for source, address in copied.items():
            if self.info(source).get("address") != address:
                raise os_error(
                    errno.EBUSY, "changed while it was moved; the sources were not deleted", source
                )
        self._delete(copied)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete files: those of a branch in a single transaction."""
        self._refuse_in_transaction("rm")
        files: list[str] = []
        for name in self.expand_path(path):
            info = self.info(name)
            place = parse_place(name)
            if not place.ref:
                raise os_error(errno.EPERM, "repositories are not deleted by a filesystem", name)
            if info["type"] == "directory" and not recursive:
                raise _needs_recursive(name, "delete")
            if info["type"] == "file":
                files.append(name)
            else:
                # A tag is refused even if nothing is below it.
                self._branch(name, place)
            if recursive:
                files.extend(self.find(name, maxdepth=maxdepth))
        self._delete(files)

    def _delete(self, files: Collection[str]) -> None:
        """Delete files: those of a branch in a single transaction."""
        places = {parse_place(name) for name in files}
        for ref, branch in self._branches(files).items():
            with os_errors(f"{ref.repository}/{ref.ref}"):
                branch.delete_many(sorted(place.path for place in places if ref_of(place) == ref))

    def _branches(self, paths: Iterable[str]) -> dict[RefPath, Branch]:
        """The branches of paths to write."""
        branches: dict[RefPath, Branch] = {}
        for path in paths:
            place = parse_place(path)
            if ref_of(place) not in branches:
                branches[ref_of(place)] = self._branch(path, place)
        return branches

    def rm_file(self, path: str) -> None:
        """Delete a file. The path is literal, never a glob."""
        self._refuse_in_transaction("rm_file")
        path = self._strip_protocol(path)
        if self.info(path)["type"] == "directory":
            raise _needs_recursive(path, "delete")
        self._delete([path])

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def start_transaction(self) -> Any:
        refuse_nested(self)
        return super().start_transaction()

    def _refuse_in_transaction(self, call: str) -> None:
        if self._intrans:
            raise OSError(
                errno.ENOTSUP,
                f"{call} is not supported in a transaction, which stages only written files; "
                "call it after the transaction",
            )

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: Any = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """Open a file to read (``r``), to write (``w``) or to write a new file (``x``).

        A written file is staged when it is closed, and not staged if its ``with`` block ends in
        an exception, here or in ``fsspec.open``. A library that closes its files after an error
        stages a part; use a ``transaction`` around it.
        """
        is_binary = "b" in mode
        if "r" in mode or (is_binary and compression is None):
            return super().open(path, mode, block_size, cache_options, compression, **options)
        keys = ("encoding", "errors", "newline")
        text = {key: options.pop(key) for key in keys if key in options}
        binary = mode if is_binary else mode.replace("t", "") + "b"
        staged = super().open(path, binary, block_size, cache_options, **options)
        return layered(staged, compression, None if is_binary else text)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> Any:
        if mode == "rb":
            # An unpickled file says its former size.
            options.pop("size", None)
            source = self._object(path)
            info = _file(path, source.entry)
            return ObjectFile(
                self,
                path,
                source,
                info,
                block_size=block_size,
                cache_options=cache_options,
                **options,
            )
        if mode not in ("wb", "xb"):
            raise os_error(
                errno.ENOTSUP, f"mode {mode!r} is not supported: write objects whole", path
            )
        branch, target = self._target(path)
        file = StagedFile(
            self, path, mode, branch, target, block_size=block_size, autocommit=autocommit
        )
        try:
            with os_errors(path):
                file.refuse_existing()
        except BaseException:
            file.abandon()
            file.close()
            raise
        return file

    @property
    def _catalog(self) -> Catalog:
        return open_catalog(self._url)

    def _repository(self, place: RefPath) -> CatalogRepository:
        return self._catalog.repository(place.repository)

    def _reader(self, place: RefPath) -> RefReader:
        """A reader whose lease, if any, lasts as long as the reader."""
        return self._repository(place).at(place.ref)

    def _object(self, path: str) -> ObjectReader:
        place = parse_place(path)
        with os_errors(path, reading=True):
            if not place.path:
                raise _is_a_folder(path)
            reader = self._reader(place)
            try:
                return reader.open(place.path)
            except NotFound as error:
                if _is_folder(reader, place.path):
                    raise _is_a_folder(path) from error
                raise

    def _target(self, path: str) -> tuple[Branch, str]:
        """The branch and the path in it to write."""
        place = parse_place(path)
        if not place.path:
            raise _is_a_folder(path)
        with os_errors(path):
            check_path(place.path)
            return self._branch(path, place), place.path

    def _branch(self, path: str, place: RefPath) -> Branch:
        with os_errors(path):
            repository = self._repository(place)
            if any(branch.name == place.ref for branch in repository.branches()):
                return repository.branch(place.ref)
            commit = repository.commit(place.ref)
        raise os_error(
            errno.EACCES,
            f"{place.ref} is read-only: it names commit {commit.id}, and only branches are "
            "written (create one with `reclaim branch create`)",
            path,
        )


def _base(path: str, place: RefPath) -> str:
    """The beginning of all names on a ref, spelled as in a path on it."""
    return path.removesuffix(place.path) if place.path else f"{path}/"


def _prefix(place: RefPath) -> str:
    return f"{place.path}/" if place.path else ""


def _is_folder(reader: RefReader, path: str) -> bool:
    return bool(reader.list(f"{path}/", limit=1).entries)


def _is_a_folder(path: str) -> OSError:
    return os_error(errno.EISDIR, "a folder; name an object, such as REPO/BRANCH/PATH", path)


def _needs_recursive(path: str, call: str) -> OSError:
    return os_error(errno.EISDIR, f"a folder; {call} it with recursive=True", path)


def _folder(name: str) -> Info:
    return {"name": name, "size": 0, "type": "directory"}


def _file(name: str, entry: Entry) -> Info:
    return {
        "name": name,
        "size": entry.size,
        "type": "file",
        "created": entry.created_at,
        "mtime": entry.created_at,
        "checksum": entry.checksum,
        "address": entry.address,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
    }


def _omit_missing(error: OSError) -> None:
    """Raise any error but a missing path."""
    if not isinstance(error, FileNotFoundError):
        raise error

"""The files of fsspec: objects to read by ranges, and files to write, staged when closed."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import warnings
import weakref
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from fsspec.compression import compr
from fsspec.core import OpenFile, get_compression
from fsspec.spec import AbstractBufferedFile
from fsspec.transaction import Transaction

from reclaim.catalog import Branch, ObjectReader
from reclaim.errors import AlreadyExists
from reclaim.filesystem.catalogs import check_not_forked
from reclaim.filesystem.os_errors import os_errors


class ObjectFile(AbstractBufferedFile):  # type: ignore[misc]
    """An object, read by ranges. The entry is the entry at the time of opening, also on a branch.

    The cache of fsspec asks for ranges, each a single request; ``cache_type`` and ``block_size``
    say how far the cache reads ahead. The lease on the commit lasts until the file is closed.
    """

    def __init__(
        self, fs: Any, path: str, source: ObjectReader, info: dict[str, Any], **options: Any
    ) -> None:
        self._source: ObjectReader | None = source
        self._details = info
        super().__init__(fs, path, "rb", size=source.entry.size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        check_not_forked()
        if self._source is None:
            raise ValueError("I/O operation on closed file.")
        with os_errors(self.path):
            return self._source.read(start, end)

    def close(self) -> None:
        super().close()
        self._source = None


class StagedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file on a branch, staged by ``Branch.put`` when it is closed.

    Contents larger than a block wait in a temporary file, and so do all contents inside a
    transaction. An exception in the ``with`` block, ``abandon``, or garbage collection of a file
    without ``close`` leave the branch as it is. Mode ``xb`` looks for an entry when the file is
    opened and again before it is staged; a writer in between is not noticed.
    """

    closed: Any

    def __init__(
        self, fs: Any, path: str, mode: str, branch: Branch, target: str, **options: Any
    ) -> None:
        self.branch = branch
        self.target = target
        self.abandoned = False
        self.is_lost = False
        self._small = b""
        self._file: Path | None = None
        super().__init__(fs, path, mode, **options)

    @property
    def content(self) -> bytes | Path:
        """All bytes written."""
        return self._small if self._file is None else self._file

    def refuse_existing(self) -> None:
        """Fail in mode ``xb`` if there is an entry."""
        if "x" in self.mode:
            refuse_existing(self.branch, self.target)

    def abandon(self) -> None:
        """Stage nothing, also of bytes still to come."""
        self.abandoned = True

    def commit(self) -> None:
        """Stage the contents."""
        with os_errors(self.path):
            self.refuse_existing()
            self.branch.put(self.target, self.content)

    def discard(self) -> None:
        """Remove contents without staging them."""
        self.abandon()
        self._forget()

    def close(self) -> None:
        if self.closed:
            return
        if _fails_in_open_file(self):
            self.abandon()
        try:
            super().close()
        except BaseException:
            self.abandon()
            raise
        finally:
            self.closed = True
            if self.autocommit or self.abandoned:
                self._forget()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abandon()
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            self.lose()
            self.close()

    def lose(self) -> None:
        """Abandon a file without any reference to it, with a warning."""
        if not self.abandoned:
            self.abandon()
            self.is_lost = True
            warnings.warn(
                f"{self.path} was not closed, and is not staged", ResourceWarning, stacklevel=3
            )

    def _upload_chunk(self, final: bool = False) -> None:
        if self.abandoned:
            return
        piece = self.buffer.getvalue()
        if final and self.autocommit and self._file is None:
            self._small = piece
        else:
            self._append(piece)
        if final and self.autocommit:
            self.commit()

    def _append(self, piece: bytes) -> None:
        if self._file is None:
            handle, name = tempfile.mkstemp(prefix="reclaim-")
            os.close(handle)
            self._file = Path(name)
            self._remove = weakref.finalize(self, _remove, self._file)
        try:
            with self._file.open("ab") as file:
                file.write(piece)
        except BaseException:
            # The file may hold a part of the piece, which a later flush would repeat.
            self.abandon()
            raise

    def _forget(self) -> None:
        self._small = b""
        if self._file is not None:
            self._remove()


class BranchTransaction(Transaction):  # type: ignore[misc]
    """Files staged together at the end, by ``Branch.put_many``.

    Up to 500 files of a branch appear at the same moment; more, and other branches, follow.
    Nothing appears if the block ends in an exception, or if any of the files was not closed.
    Transactions cannot be nested.
    """

    fs: Any

    def start(self) -> None:
        refuse_nested(self.fs)
        super().start()

    def complete(self, commit: bool = True) -> None:
        try:
            if commit:
                self._stage()
        finally:
            while self.files:
                self.files.popleft().discard()
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None

    def _stage(self) -> None:
        branches: dict[str, list[StagedFile]] = defaultdict(list)
        for file in self.files:
            if file.is_lost:
                raise ValueError(f"{file.path} was not closed; nothing was staged")
            if file.abandoned:
                continue
            if not file.closed:
                # A layer above may hold a part of what was written.
                raise ValueError(
                    f"{file.path} is open at the end of the transaction; nothing was staged"
                )
            with os_errors(file.path):
                file.refuse_existing()
            branches[file.path.removesuffix(file.target).rstrip("/")].append(file)
        for path, files in branches.items():
            with os_errors(path):
                files[0].branch.put_many((file.target, file.content) for file in files)


class _Layer:
    """A stream into a staged file, which is closed or abandoned together with the stream."""

    staged: StagedFile | None = None

    def close(self) -> None:
        try:
            super().close()  # type: ignore[misc]
        except BaseException:
            self._abandon()
            raise
        finally:
            if self.staged is not None:
                self.staged.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._abandon()
        self.close()

    def __del__(self) -> None:
        if self.staged is not None and not self.staged.closed:
            self.staged.lose()

    def _abandon(self) -> None:
        if self.staged is not None:
            self.staged.abandon()


class _CompressedLayer(_Layer, io.BufferedWriter):
    pass


class _TextLayer(_Layer, io.TextIOWrapper):
    pass


def layered(staged: StagedFile, compression: str | None, text: Mapping[str, Any] | None) -> Any:
    """A staged file under a compression, a text encoding, or both."""
    stream: Any = staged
    if (name := get_compression(staged.path, compression)) is not None:
        stream = _CompressedLayer(compr[name](staged, mode="w"))
        stream.staged = staged
    if text is not None:
        stream = _TextLayer(stream, **text)
        stream.staged = staged
    return stream


def refuse_nested(fs: Any) -> None:
    """Fail if a filesystem has an open transaction."""
    if fs._intrans:
        raise RuntimeError("a transaction of this filesystem is open; transactions do not nest")


def refuse_existing(branch: Branch, path: str) -> None:
    """Fail if a branch has an entry at a path."""
    if branch.exists(path):
        raise AlreadyExists(
            f"there is an object {path!r} on {branch.name} already",
            hint="remove it first, or write without mode 'x'",
        )


def _fails_in_open_file(staged: StagedFile) -> bool:
    """Whether ``fsspec.open`` closes a file after an exception in its ``with`` block.

    The method ``__exit__`` of ``OpenFile`` closes its files without the exception, which only its
    frame has. ``sys.exc_info`` does not tell the block from other handlers of an exception.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is OpenFile.__exit__.__code__:
            arguments = frame.f_locals
            if any(file is staged for file in arguments["self"].fobjects):
                return arguments["args"][0] is not None
        frame = frame.f_back
    return False


def _remove(file: Path) -> None:
    with suppress(FileNotFoundError):
        file.unlink()

"""Local files and folders, read by put and written by get."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from reclaim.cli.views.failure import from_system
from reclaim.errors import InvalidInput, Refused


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file below a folder; ``path`` is relative, with ``/`` between its parts."""

    path: str
    file: Path
    size: int


@dataclass(frozen=True, slots=True)
class Folder:
    """The files below a folder, in order. Links to folders and special files are skipped."""

    files: list[LocalFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def read_folder(root: Path) -> Folder:
    """List all files below a folder. An unreadable folder is an error."""
    folder = Folder()
    with translated():
        for place, folders, names in os.walk(root, onerror=_raise):
            parent = Path(place)
            folders.sort()
            links = [name for name in folders if (parent / name).is_symlink()]
            folder.skipped.extend((parent / name).relative_to(root).as_posix() for name in links)
            for name in sorted(names):
                file = parent / name
                path = file.relative_to(root).as_posix()
                if file.is_file():
                    folder.files.append(LocalFile(path, file, file.stat().st_size))
                else:
                    folder.skipped.append(path)
    return folder


def _raise(error: OSError) -> None:
    raise error


def inside(root: Path, path: str) -> Path:
    """Return the local file of a catalog path below a folder, and create its parents.

    Refuse links that lead out of the folder.
    """
    with translated():
        target = root / path
        base = root.resolve()
        for parent in reversed(target.relative_to(root).parents[:-1]):
            _refuse_outside(base, root / parent)
            (root / parent).mkdir(exist_ok=True)
        _refuse_outside(base, target)
    return target


def _refuse_outside(base: Path, target: Path) -> None:
    if not target.resolve().is_relative_to(base):
        raise Refused(f"{target} is a link out of {base}", hint="choose an empty folder")


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the target after the block; on an error it is deleted."""
    with translated():
        target = target.resolve()
        if target.exists() and not target.is_file():
            raise InvalidInput(f"{target} is not a file", hint="name a file, or - for stdout")
        beside = target.parent / f".reclaim-{secrets.token_hex(8)}.part"
        try:
            with beside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


@contextmanager
def translated() -> Iterator[None]:
    """Convert operating system errors to ``reclaim.errors``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise from_system(error) from error

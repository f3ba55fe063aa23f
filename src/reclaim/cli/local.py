"""Files and folders of this machine, as put reads them and get writes them."""

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
    """All files below a folder. A folder that cannot be read is an error, never left out."""
    folder = Folder()
    with translated():
        for place, folders, names in os.walk(root, onerror=_raise):
            here = Path(place)
            folders.sort()
            links = [name for name in folders if (here / name).is_symlink()]
            folder.skipped.extend((here / name).relative_to(root).as_posix() for name in links)
            for name in sorted(names):
                file = here / name
                path = file.relative_to(root).as_posix()
                if file.is_file():
                    folder.files.append(LocalFile(path, file, file.stat().st_size))
                else:
                    folder.skipped.append(path)
    return folder


def _raise(error: OSError) -> None:
    raise error


def inside(root: Path, path: str) -> Path:
    """Where a path of the catalog goes below a folder, once its parents are made.

    Links in the folder must not lead out of it.
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
        raise Refused(f"{target} is a link that leads out of {base}", hint="choose an empty folder")


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file that takes the target's place when the block ends well; otherwise nothing is left."""
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
    """Turn what the operating system raises into the tree of ``reclaim.errors``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise from_system(error) from error

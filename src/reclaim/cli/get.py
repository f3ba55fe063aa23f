"""``reclaim get``: download an object or everything below a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from reclaim.cli import local
from reclaim.cli.command import command
from reclaim.cli.describe import objects, size
from reclaim.cli.output import Done
from reclaim.cli.places import nothing_below, parse_folder, parse_object, single
from reclaim.cli.progress import progress
from reclaim.cli.session import Session
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.catalog import Place, Reader

STDOUT = "-"


def register(app: typer.Typer) -> None:
    command(app, "get", get)


def get(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="REPO/REF/PATH", show_default=False)],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="LOCAL",
            help="A file, a folder, or - for stdout. Default: here, under the object's own name.",
            show_default=False,
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Download all that is below PATH.")
    ] = False,
) -> None:
    """Download an object. A file appears under its name only when all of it is there."""
    if recursive:
        _get_folder(session, parse_folder(source), target)
    elif target == STDOUT:
        _print_object(session, parse_object(source))
    else:
        _get_object(session, parse_object(source), target)


def _get_object(session: Session, place: Place, target: str | None) -> None:
    name = place.path.rsplit("/", 1)[-1]
    with session.open() as catalog:
        reader = catalog.repository(place.repository).at(place.ref)
        with single(reader, place.path):
            entry = reader.stat(place.path)
        file = Path(target) if target is not None else Path(name)
        if file.is_dir():
            file = file / name
        with local.replacing(file) as out:
            written = _write(reader.stream(place.path), out)
    facts = {"path": entry.path, "file": str(file.absolute()), "bytes": written}
    session.output.answer(Done(f"Got {entry.path} ({size(written)}) as {file}.", facts))


def _print_object(session: Session, place: Place) -> None:
    if session.output.for_programs:
        raise InvalidInput(
            "stdout cannot carry both the object and a JSON document",
            hint="leave --json out, or name a file",
        )
    with session.open() as catalog:
        reader = catalog.repository(place.repository).at(place.ref)
        with single(reader, place.path):
            reader.stat(place.path)
        _write(reader.stream(place.path), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _get_folder(session: Session, place: Place, target: str | None) -> None:
    if target == STDOUT:
        raise InvalidInput("a folder cannot go to stdout", hint="name a folder")
    root = Path(target or place.path.rstrip("/").rsplit("/", 1)[-1] or place.repository)
    done = total = 0
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        reader = repo.at(place.ref)
        # A folder may take long, so that its commit must not be collected meanwhile.
        with repo.lease(place.ref), progress("Downloading") as advance:
            for entry in reader.entries(place.path):
                total += _get_below(reader, entry.path, root, entry.path.removeprefix(place.path))
                done += 1
                advance(entry.size)
        if not done:
            raise nothing_below(reader, place.path)
    facts = {"folder": str(root.absolute()), "objects": done, "bytes": total}
    session.output.answer(Done(f"Got {objects(done)} ({size(total)}) into {root}.", facts))


def _get_below(reader: Reader, path: str, root: Path, relative: str) -> int:
    with local.translated():
        root.mkdir(parents=True, exist_ok=True)
    with local.replacing(local.inside(root, relative)) as out:
        return _write(reader.stream(path), out)


def _write(pieces: Iterable[bytes], out: IO[bytes]) -> int:
    return sum(out.write(piece) for piece in pieces)

"""``reclaim get``: download an object or everything below a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli import local
from reclaim.cli.command import command
from reclaim.cli.options.places import nothing_below, parse_folder, parse_object, single
from reclaim.cli.progress.transfers import progress
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.catalog import RefPath, RefReader

STDOUT = "-"
UNVERIFIED = "Not verified: only its size is known, no SHA-256."


class GotObject(TypedDict):
    """A downloaded object."""

    path: str
    file: str
    bytes: int
    verified: bool | None
    """With --verify: true if the SHA-256 matches, false if no SHA-256 is known."""


class GotFolder(TypedDict):
    """With -r."""

    folder: str
    objects: int
    bytes: int
    verified: int | None
    unverified: int | None


def register(app: typer.Typer) -> None:
    command(app, "get", get)


def get(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="REPO/REF/PATH", show_default=False)],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="LOCAL",
            help="A file, a folder, or - for stdout. Default: the object's name, here.",
            show_default=False,
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Download everything below PATH.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare the SHA-256 of the bytes with the catalog."),
    ] = False,
) -> None:
    """Download an object. A file appears only when it is complete.

    With --verify, changed bytes end in exit code 8 and leave no file; bytes on stdout were already
    written. Without a known SHA-256 only the size is compared.
    """
    if recursive:
        _get_folder(session, parse_folder(source), target, verify=verify)
    elif target == STDOUT:
        _print_object(session, parse_object(source), verify=verify)
    else:
        _get_object(session, parse_object(source), target, verify=verify)


def _get_object(session: Session, place: RefPath, target: str | None, *, verify: bool) -> None:
    name = place.path.rsplit("/", 1)[-1]
    with session.open() as catalog:
        reader = catalog.repository(place.repository).at(place.ref)
        with single(reader, place.path):
            entry = reader.stat(place.path)
        file = Path(target) if target is not None else Path(name)
        if file.is_dir():
            file = file / name
        with local.replacing(file) as out:
            written, known = _write(reader, place.path, out, verify=verify)
    facts: GotObject = {
        "path": entry.path,
        "file": str(file.absolute()),
        "bytes": written,
        "verified": None,
    }
    sentence = f"Got {entry.path} ({size(written)}) as {file}."
    if verify:
        facts["verified"] = known
        sentence += " Its SHA-256 matches." if known else f" {UNVERIFIED}"
    session.output.answer(Done(sentence, facts))


def _print_object(session: Session, place: RefPath, *, verify: bool) -> None:
    if session.output.for_programs:
        raise InvalidInput(
            "stdout cannot carry both the object and a JSON document",
            hint="leave --json out, or name a file",
        )
    with session.open() as catalog:
        reader = catalog.repository(place.repository).at(place.ref)
        with single(reader, place.path):
            reader.stat(place.path)
        _, known = _write(reader, place.path, sys.stdout.buffer, verify=verify)
        sys.stdout.buffer.flush()
    if verify and not known:
        print(UNVERIFIED, file=sys.stderr)


def _get_folder(session: Session, place: RefPath, target: str | None, *, verify: bool) -> None:
    if target == STDOUT:
        raise InvalidInput("a folder cannot go to stdout", hint="name a folder")
    root = Path(target or place.path.rstrip("/").rsplit("/", 1)[-1] or place.repository)
    done = total = verified = 0
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        reader = repo.at(place.ref)
        # A lease protects the commit during a long download.
        with repo.lease(place.ref), progress("Downloading") as advance:
            for entry in reader.entries(place.path):
                relative = entry.path.removeprefix(place.path)
                written, known = _get_below(reader, entry.path, root, relative, verify=verify)
                total += written
                verified += known
                done += 1
                advance(entry.size)
        if not done:
            raise nothing_below(reader, place.path)
    facts: GotFolder = {
        "folder": str(root.absolute()),
        "objects": done,
        "bytes": total,
        "verified": None,
        "unverified": None,
    }
    sentence = f"Got {objects(done)} ({size(total)}) into {root}."
    if verify:
        facts["verified"] = verified
        facts["unverified"] = done - verified
        sentence += f" The SHA-256 of {verified} matches."
        if done > verified:
            sentence += f" Not verified, without a known SHA-256: {done - verified}."
    session.output.answer(Done(sentence, facts))


def _get_below(
    reader: RefReader, path: str, root: Path, relative: str, *, verify: bool
) -> tuple[int, bool]:
    with local.translated():
        root.mkdir(parents=True, exist_ok=True)
    with local.replacing(local.inside(root, relative)) as out:
        return _write(reader, path, out, verify=verify)


def _write(reader: RefReader, path: str, out: IO[bytes], *, verify: bool) -> tuple[int, bool]:
    """Return the number of bytes, and whether a SHA-256 was compared."""
    from reclaim.catalog.content import checksums

    if not verify:
        return sum(out.write(piece) for piece in reader.stream(path)), False
    entry, pieces = reader.stream_verified(path)
    return sum(out.write(piece) for piece in pieces), checksums.is_known(entry.checksum)

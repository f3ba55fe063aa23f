"""``reclaim put``: upload a file, stdin or a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli import local
from reclaim.cli.command import MetaOption, command
from reclaim.cli.options.places import parse_folder, parse_object
from reclaim.cli.progress.transfers import progress
from reclaim.cli.session import Session, parse_metadata
from reclaim.cli.views.describe import entry_document, objects
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.catalog import Entry

STDIN = "-"


class PutFolder(TypedDict):
    """With -r."""

    repository: str
    branch: str
    prefix: str
    objects: int
    bytes: int
    skipped: Sequence[str]


def register(app: typer.Typer) -> None:
    command(app, "put", put)


def put(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="LOCAL", help="A file, a folder with -r, or - for stdin.")
    ],
    target: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Upload everything below a folder.")
    ] = False,
    content_type: Annotated[
        str, typer.Option("--content-type", metavar="TYPE", help="Media type, such as text/csv.")
    ] = "",
    meta: MetaOption = None,
) -> None:
    """Upload an object to a branch. It becomes part of the history with the next commit."""
    if recursive:
        if content_type or meta:
            raise InvalidInput("--content-type and --meta are for a single object")
        _put_folder(session, source, target)
    else:
        _put_object(session, source, target, content_type, parse_metadata(meta or []))


def _put_object(
    session: Session, source: str, target: str, content_type: str, metadata: dict[str, str]
) -> None:
    place = parse_object(target)
    if source != STDIN and Path(source).is_dir():
        raise InvalidInput(f"{source} is a folder", hint="add -r to upload everything below it")
    with session.open() as catalog:
        branch = catalog.repository(place.repository).branch(place.ref)
        data = sys.stdin.buffer if source == STDIN else Path(source)
        entry = branch.put(place.path, data, content_type=content_type, metadata=metadata)
    session.output.answer(
        Done(f"Put {entry.path} ({size(entry.size)}) on {place.ref}.", entry_document(entry))
    )


def _put_folder(session: Session, source: str, target: str) -> None:
    from reclaim.catalog.names import check_path

    place = parse_folder(target)
    if not Path(source).is_dir():
        raise InvalidInput(f"{source} is not a folder", hint="leave -r out for a single file")
    folder = local.read_folder(Path(source))
    items = [(check_path(place.path + listed.path), listed.file) for listed in folder.files]
    total = sum(listed.size for listed in folder.files)
    uploaded: list[int] = []
    with session.open() as catalog:
        branch = catalog.repository(place.repository).branch(place.ref)
        with progress("Uploading", objects=len(items), size=total) as advance:

            def note(entry: Entry) -> None:
                uploaded.append(entry.size)
                advance(entry.size)

            done = branch.put_many(items, progress=note)
    sentence = f"Put {objects(done)} ({size(sum(uploaded))}) on {place.ref}."
    if folder.skipped:
        named = ", ".join(folder.skipped[:5]) + (", …" if len(folder.skipped) > 5 else "")
        sentence += f"\nSkipped links to folders and special files: {named}"
    session.output.answer(
        Done(
            sentence,
            PutFolder(
                repository=place.repository,
                branch=place.ref,
                prefix=place.path,
                objects=done,
                bytes=sum(uploaded),
                skipped=folder.skipped,
            ),
        )
    )

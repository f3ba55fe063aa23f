"""``reclaim cp``: copy objects to a branch, from any ref or from another repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import below, parse_folder, parse_object, refuse_nesting, single
from reclaim.cli.session import Session
from reclaim.cli.views.describe import entry_document, objects
from reclaim.cli.views.output import Done

if TYPE_CHECKING:
    from reclaim.catalog import Catalog, Entry, RefPath

IN_MEMORY = 32 * 1024 * 1024

Copy = Callable[[str, str], "Entry"]


class CopiedDocument(TypedDict):
    """With -r."""

    repository: str
    branch: str
    copied: Sequence[str]


def register(app: typer.Typer) -> None:
    command(app, "cp", cp)


def cp(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="REPO/REF/PATH", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Copy everything below PATH.")
    ] = False,
) -> None:
    """Copy an object to a branch. A copy within a branch takes no extra space."""
    parse = parse_folder if recursive else parse_object
    from_, to = parse(source), parse(target)
    with session.open() as catalog:
        copy = _copier(catalog, from_, to)
        reader = catalog.repository(from_.repository).at(from_.ref)
        if recursive:
            refuse_nesting(from_, to)
            paths = below(reader, from_.path)
            for path in paths:
                copy(from_.path + path, to.path + path)
            done = Done(
                f"Copied {objects(len(paths))} to {to.ref}.",
                CopiedDocument(
                    repository=to.repository,
                    branch=to.ref,
                    copied=[to.path + path for path in paths],
                ),
            )
        else:
            with single(reader, from_.path):
                entry = copy(from_.path, to.path)
            done = Done(f"Copied {from_.path} to {entry.path} on {to.ref}.", entry_document(entry))
    session.output.answer(done)


def _copier(catalog: Catalog, taken: RefPath, given: RefPath) -> Copy:
    branch = catalog.repository(given.repository).branch(given.ref)
    if taken.repository == given.repository:
        return lambda source, target: branch.copy(source, target, source_ref=taken.ref)
    reader = catalog.repository(taken.repository).at(taken.ref)

    def copy(source: str, target: str) -> Entry:
        entry = reader.stat(source)
        # The storage cannot be read while it is waiting for what it writes.
        with SpooledTemporaryFile(IN_MEMORY) as data:
            data.writelines(reader.stream(source))
            data.seek(0)
            return branch.put(
                target, data, content_type=entry.content_type, metadata=entry.metadata
            )

    return copy

"""``reclaim ls``: repositories, refs, and objects on a ref."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.commands.repo import Repositories
from reclaim.cli.options.places import parse
from reclaim.cli.session import Session
from reclaim.cli.views.describe import entry_document, instant, objects
from reclaim.cli.views.documents import EntryDocument
from reclaim.cli.views.output import Block, Table
from reclaim.cli.views.refs import Refs

if TYPE_CHECKING:
    from reclaim.catalog import Page, RefReader

PAGE = 1_000
EXPIRED = "expired"
"""Shown instead of a size: a lifecycle rule deleted the data."""


class TakenByRule(TypedDict):
    """Lifecycle run and rule that deleted data."""

    run: str
    rule: str


class ListedEntry(EntryDocument):
    """An object in a listing."""

    expired: TakenByRule | None
    """Lifecycle run and rule that deleted the data; null while the data exists."""


class ListingDocument(TypedDict):
    """The objects on a ref."""

    entries: Sequence[ListedEntry]
    prefixes: Sequence[str]
    after: str
    """Value of --after for the next page; empty on the last page."""


def register(app: typer.Typer) -> None:
    command(app, "ls", ls)


@dataclass(frozen=True, slots=True)
class Listing:
    """Answer that lists entries and common prefixes, page by page."""

    pages: Iterable[Page]
    reader: RefReader

    def document(self) -> ListingDocument:
        pages = list(self.pages)
        return {
            "entries": [entry for page in pages for entry in self._entries(page)],
            "prefixes": [prefix for page in pages for prefix in page.prefixes],
            "after": pages[-1].after if pages else "",
        }

    def _entries(self, page: Page) -> Iterator[ListedEntry]:
        expired = self.reader.expired(page.entries)
        for entry in page.entries:
            by = expired.get(entry.address)
            gone: TakenByRule | None = None if by is None else {"run": by.run, "rule": by.rule}
            yield {**entry_document(entry), "expired": gone}

    def view(self) -> Iterator[Block]:
        after: list[str] = []
        runs: Counter[str] = Counter()
        yield Table(("size", "created (UTC)", "path"), self._rows(after, runs), frozenset({"size"}))
        for run, count in sorted(runs.items()):
            yield f"Expired: {objects(count)}, data deleted by lifecycle run {run}."
        if after:
            yield f"There is more: add --after {after[0]}"

    def _rows(self, after: list[str], runs: Counter[str]) -> Iterator[tuple[str, str, str]]:
        last = ""
        for page in self.pages:
            expired = self.reader.expired(page.entries)
            runs.update(expired[e.address].run for e in page.entries if e.address in expired)
            rows = [
                (e.path, EXPIRED if e.address in expired else str(e.size), instant(e.created_at))
                for e in page.entries
            ]
            rows += [(prefix, "", "") for prefix in page.prefixes]
            for path, size, created in sorted(rows):
                yield size, created, path
            last = page.after
        if last:
            after.append(last)


def ls(
    session: Session,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="REPO[/REF[/PREFIX]]",
            help="Without it, list the repositories. REPO alone lists its branches and tags.",
            show_default=False,
        ),
    ] = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="List all levels below.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="List at most N objects.")
    ] = None,
    after: Annotated[
        str, typer.Option("--after", metavar="PATH", help="Start after this path or prefix.")
    ] = "",
) -> None:
    """List repositories, refs, or the objects on a ref.

    Example: reclaim ls sales/main/orders/

    The list of a branch includes uncommitted changes.
    """
    with session.open() as catalog:
        if place is None:
            session.output.answer(Repositories(catalog.repositories()))
            return
        where = parse(place)
        repo = catalog.repository(where.repository)
        if not where.ref:
            session.output.answer(Refs([*repo.branches(), *repo.tags()]))
            return
        reader = repo.at(where.ref)
        delimiter = "" if recursive else "/"
        if limit is None:
            pages = _all_pages(reader, where.path, delimiter, after)
        else:
            page = reader.list(where.path, delimiter=delimiter, after=after, limit=limit)
            pages = iter([page])
        session.output.answer(Listing(pages, reader))


def _all_pages(reader: RefReader, prefix: str, delimiter: str, after: str) -> Iterator[Page]:
    while True:
        page = reader.list(prefix, delimiter=delimiter, after=after, limit=PAGE)
        yield page
        if not page.after:
            return
        after = page.after

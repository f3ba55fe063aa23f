"""``reclaim diff``: uncommitted changes of a branch, or changes between two refs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import parse_ref, parse_ref_name
from reclaim.cli.session import Session
from reclaim.cli.views.describe import entry_document
from reclaim.cli.views.documents import EntryDocument
from reclaim.cli.views.output import Block, Table
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.catalog import Change, Entry, Repository

KINDS = ("added", "changed", "removed")
ChangeWord = Literal["added", "changed", "removed"]


class ChangeDocument(TypedDict):
    """A changed path."""

    path: str
    kind: ChangeWord
    before: EntryDocument | None
    after: EntryDocument | None


class DiffSummary(TypedDict):
    """Number of changed paths."""

    added: int
    changed: int
    removed: int


class DiffDocument(TypedDict):
    """Changes between two refs, or uncommitted changes."""

    changes: NotRequired[Sequence[ChangeDocument]]
    """Left out with --stat."""
    summary: DiffSummary


def register(app: typer.Typer) -> None:
    command(app, "diff", diff)


@dataclass(frozen=True, slots=True)
class ChangeList:
    """Answer that lists and counts changes."""

    changes: Iterable[Change]
    only_summary: bool = False

    def document(self) -> DiffDocument:
        counts: Counter[str] = Counter()
        changes = [_document(change) for change in self._counted(counts)]
        summary: DiffSummary = {
            "added": counts["added"],
            "changed": counts["changed"],
            "removed": counts["removed"],
        }
        if self.only_summary:
            return {"summary": summary}
        return {"changes": changes, "summary": summary}

    def view(self) -> Iterator[Block]:
        counts: Counter[str] = Counter()
        rows = (_row(change) for change in self._counted(counts))
        if self.only_summary:
            for _ in rows:
                pass
        else:
            yield Table(("change", "before", "after", "path"), rows, frozenset({"before", "after"}))
        yield ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)

    def _counted(self, counts: Counter[str]) -> Iterator[Change]:
        for change in self.changes:
            counts[change.kind.value] += 1
            yield change


def _document(change: Change) -> ChangeDocument:
    return {
        "path": change.path,
        "kind": change.kind.value,
        "before": entry_document(change.before) if change.before else None,
        "after": entry_document(change.after) if change.after else None,
    }


def _row(change: Change) -> tuple[str, str, str, str]:
    return change.kind.value, _size(change.before), _size(change.after), change.path


def _size(entry: Entry | None) -> str:
    return str(entry.size) if entry else "-"


def diff(
    session: Session,
    left: Annotated[
        str,
        typer.Argument(
            metavar="REPO/REF", help="A branch alone shows uncommitted changes.", show_default=False
        ),
    ],
    right: Annotated[
        str | None,
        typer.Argument(metavar="REF", help="Compare with this ref.", show_default=False),
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="P", help="Only these paths.")] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Only the summary.")] = False,
) -> None:
    """Show uncommitted changes, or changes between two refs.

    Sizes are in bytes.
    """
    place = parse_ref(left)
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        if right is None:
            changes = _uncommitted(repo, place.ref, prefix)
        else:
            changes = repo.diff(place.ref, parse_ref_name(right), prefix)
        session.output.answer(ChangeList(changes, stat))


def _uncommitted(repo: Repository, ref: str, prefix: str) -> Iterable[Change]:
    repo.commit(ref)
    if all(branch.name != ref for branch in repo.branches()):
        raise InvalidInput(
            f"{ref} is not a branch and has no uncommitted changes",
            hint="name a second ref to compare with",
        )
    return repo.branch(ref).uncommitted(prefix)

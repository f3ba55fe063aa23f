"""``reclaim help``: the help of a command, or of a topic that concerns all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.config.settings import SETTINGS
from reclaim.cli.session import Session
from reclaim.cli.views import exits
from reclaim.cli.views.output import Block, Table
from reclaim.errors import NotFound


def register(app: typer.Typer) -> None:
    command(app, "help", show)


def show(
    session: Session,
    name: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="A command, or one of: exit-codes, settings, refs.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show help on a command, or on exit-codes, settings or refs."""
    words = name or []
    topic = TOPICS.get(" ".join(words))
    if topic is not None:
        session.output.answer(topic())
        return

    from reclaim.cli.application import HELP_OPTIONS, application

    found: Any = application()
    inner = typer.Context(found, info_name="reclaim", help_option_names=HELP_OPTIONS)
    for word in words:
        found = getattr(found, "commands", {}).get(word)
        if found is None:
            raise NotFound(
                f"there is no command or topic {' '.join(words)!r}",
                hint=f"topics are {', '.join(TOPICS)}; commands are in `reclaim --help`",
            )
        inner = typer.Context(found, info_name=word, parent=inner)
    session.output.answer(HelpText(" ".join(words) or "reclaim", found.get_help(inner)))


class HelpDocument(TypedDict):
    """The help of a command or of a topic."""

    topic: str
    text: str
    rows: NotRequired[Sequence[Mapping[str, Any]]]
    """Of a topic with a table."""


@dataclass(frozen=True, slots=True)
class HelpText:
    """The help of a command."""

    topic: str
    text: str

    def document(self) -> HelpDocument:
        return {"topic": self.topic, "text": self.text}

    def view(self) -> Iterator[Block]:
        yield self.text


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: a few sentences around a table."""

    topic: str
    before: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    after: str
    facts: Sequence[Mapping[str, Any]] | None = None
    """The rows for programs, where a cell is not all text."""

    def document(self) -> HelpDocument:
        rows = self.facts or [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"topic": self.topic, "text": f"{self.before}\n\n{self.after}", "rows": rows}

    def view(self) -> Iterator[Block]:
        yield self.before + "\n"
        yield Table(self.columns, self.rows)
        yield "\n" + self.after


def _exit_codes() -> Topic:
    kinds = exits.kinds()
    return Topic(
        "exit-codes",
        "Every command ends with one of these codes. With --json an error also has a kind.",
        ("code", "meaning", "kinds"),
        [
            (str(code), meaning, ", ".join(kinds.get(code, ())))
            for code, meaning in exits.meanings().items()
        ],
        "4, 5 and 7 are worth another try later; the others need a person, or another call.",
        [
            {"code": code, "meaning": meaning, "kinds": kinds.get(code, [])}
            for code, meaning in exits.meanings().items()
        ],
    )


def _settings() -> Topic:
    return Topic(
        "settings",
        "Each can be set by an option, a variable, in reclaim.toml beside the catalog, or in\n"
        "~/.config/reclaim/reclaim.toml; the first of these that sets it counts.",
        ("setting", "option", "variable", "meaning"),
        [(each.key, each.flag, each.variable, each.meaning) for each in SETTINGS],
        'A dot in a name is a table in the file: [spark] and master = "...".\n'
        "`reclaim config show` says what is set, and where.",
    )


def _refs() -> Topic:
    return Topic(
        "refs",
        "A ref names a commit. It begins with one of the first three, and may go on:",
        ("form", "meaning"),
        [
            ("main", "a branch, or a tag"),
            ("1f2e3d4c", "a commit, by its id or six or more of its first digits"),
            ("main@2026-10-31", "the newest commit of that day or before, in UTC"),
            ("main@2026-10-31T12:00", "the same of that minute; seconds and an offset can follow"),
            ("main~2", "two commits back, along first parents"),
            ("main^2", "the second parent of a merge"),
        ],
        "A place is REPO/REF/PATH; a slash inside a ref is written %2F. Times look back along\n"
        "first parents from where the ref is now, among the commits that history still has.",
    )


TOPICS: Mapping[str, Callable[[], Topic]] = {
    "exit-codes": _exit_codes,
    "settings": _settings,
    "refs": _refs,
}

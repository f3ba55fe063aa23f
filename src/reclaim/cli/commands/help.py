"""``reclaim help``: help on a command or a topic."""

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
            help="A command, exit-codes, settings or refs.",
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

    command_: Any = application()
    inner = typer.Context(command_, info_name="reclaim", help_option_names=HELP_OPTIONS)
    for word in words:
        command_ = getattr(command_, "commands", {}).get(word)
        if command_ is None:
            raise NotFound(
                f"there is no command or topic {' '.join(words)!r}",
                hint=f"topics are {', '.join(TOPICS)}; commands are in `reclaim --help`",
            )
        inner = typer.Context(command_, info_name=word, parent=inner)
    session.output.answer(HelpText(" ".join(words) or "reclaim", command_.get_help(inner)))


class HelpDocument(TypedDict):
    """Help on a command or a topic."""

    topic: str
    text: str
    rows: NotRequired[Sequence[Mapping[str, Any]]]
    """Rows of a topic with a table."""


@dataclass(frozen=True, slots=True)
class HelpText:
    """Help on a command."""

    topic: str
    text: str

    def document(self) -> HelpDocument:
        return {"topic": self.topic, "text": self.text}

    def view(self) -> Iterator[Block]:
        yield self.text


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: a table with text above and below."""

    topic: str
    before: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    after: str
    facts: Sequence[Mapping[str, Any]] | None = None
    """Rows for programs, if a cell is not just text."""

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
        "Exit codes of all commands. With --json, an error also has a kind.",
        ("code", "meaning", "kinds"),
        [
            (str(code), meaning, ", ".join(kinds.get(code, ())))
            for code, meaning in exits.meanings().items()
        ],
        "Retry later after 4, 5 and 7; the others need a correction.",
        [
            {"code": code, "meaning": meaning, "kinds": kinds.get(code, [])}
            for code, meaning in exits.meanings().items()
        ],
    )


def _settings() -> Topic:
    return Topic(
        "settings",
        "Order of precedence: option, environment variable, reclaim.toml beside the catalog,\n"
        "~/.config/reclaim/reclaim.toml.",
        ("setting", "option", "variable", "meaning"),
        [(each.key, each.flag, each.variable, each.meaning) for each in SETTINGS],
        'A dot in a name is a table in the file: [spark] and master = "...".\n'
        "`reclaim config show` prints the settings and their origins.",
    )


def _refs() -> Topic:
    return Topic(
        "refs",
        "A ref names a commit. Suffixes can follow a branch, a tag or an id:",
        ("form", "meaning"),
        [
            ("main", "a branch, or a tag"),
            ("1f2e3d4c", "a commit, by its id or six or more of its first digits"),
            ("main@2026-10-31", "the newest commit up to the end of this day, in UTC"),
            ("main@2026-10-31T12:00", "up to this minute; seconds and an offset can follow"),
            ("main~2", "two commits back, along first parents"),
            ("main^2", "the second parent of a merge"),
        ],
        "A place is REPO/REF/PATH; a slash inside a ref is written %2F. Dates are looked\n"
        "up along first parents from the current commit, in the remaining history.",
    )


TOPICS: Mapping[str, Callable[[], Topic]] = {
    "exit-codes": _exit_codes,
    "settings": _settings,
    "refs": _refs,
}

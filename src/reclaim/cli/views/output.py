"""Output of commands: text for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Protocol

from reclaim.model import instant_text
from reclaim.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from reclaim.cli.views.failure import Failure

CHUNK = 1_000
"""Rows aligned at a time. A long listing starts at once."""
SHORT_CELL = 20
"""Cells up to this width, such as ids and times, are not wrapped on a terminal."""
GAP = "  "
"""Space between two columns."""
INDENT = "    "

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with column names."""

    columns: Row
    rows: Iterable[Row]
    right: frozenset[str] = frozenset()
    """Columns aligned to the right."""
    last_below: bool = False
    """On a narrow terminal the last column goes to a separate line."""


Block = str | Table


class Answer(Protocol):
    """Answer of a command, as a document or a view. A single form is used, and only once."""

    def document(self) -> Mapping[str, Any]: ...

    def view(self) -> Iterable[Block]: ...


@dataclass(frozen=True, slots=True)
class Done:
    """Answer of a command that made a change: a sentence and its facts."""

    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Mapping[str, Any]:
        return self.facts

    def view(self) -> Iterable[Block]:
        return [self.sentence]


class Output(Protocol):
    """Destination of answers and failures."""

    @property
    def for_programs(self) -> bool:
        """Whether a program reads the output: no questions, and nothing else on stdout."""
        ...

    def answer(self, answer: Answer) -> None: ...

    def fail(self, failure: Failure) -> None: ...


class JsonOutput:
    """Exactly one JSON document on stdout, for failures too."""

    for_programs = True

    def answer(self, answer: Answer) -> None:
        self._write(answer.document())

    def fail(self, failure: Failure) -> None:
        self._write(failure.document())

    def _write(self, document: Mapping[str, Any]) -> None:
        # Encode the whole document before writing: an error leaves no partial output.
        text = json.dumps(document, indent=2, ensure_ascii=False, default=_encode)
        sys.stdout.write(text + "\n")


@dataclass(frozen=True, slots=True)
class ConsoleOutput:
    """Sentences and tables on stdout, failures on stderr; colours on a terminal only."""

    header: bool = True
    """Whether tables have a header."""

    @property
    def for_programs(self) -> bool:
        return False

    def answer(self, answer: Answer) -> None:
        styled = sys.stdout.isatty()
        for block in answer.view():
            if isinstance(block, str):
                print(printable(block))
            elif styled:
                _print_styled(block, header=self.header)
            else:
                _print_plain(block, header=self.header)

    def fail(self, failure: Failure) -> None:
        sys.stdout.flush()
        print(f"error: {printable(failure.message)}", file=sys.stderr)
        if failure.hint:
            print(f"hint: {printable(failure.hint)}", file=sys.stderr)


def _chunks(table: Table) -> Iterator[list[list[str]]]:
    rows = iter(table.rows)
    while chunk := list(islice(rows, CHUNK)):
        yield [[printable(cell) for cell in row] for row in chunk]


def _print_plain(table: Table, *, header: bool) -> None:
    widths = [0] * len(table.columns)
    head = [list(table.columns)] if header else []
    for rows in _chunks(table):
        chunk, head = head + rows, []
        columns = zip(*chunk, strict=True)
        widths = [max(w, *map(len, cells)) for w, cells in zip(widths, columns, strict=True)]
        for row in chunk:
            print(_aligned(table, row, widths))


def _aligned(table: Table, row: Row, widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if name in table.right else cell.ljust(width)
        for cell, width, name in zip(row, widths, table.columns, strict=False)
    ]
    return GAP.join(cells).rstrip()


def _print_styled(table: Table, *, header: bool) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(highlight=False)
    for chunk in _chunks(table):
        columns = zip(table.columns, *chunk, strict=True)
        widths = [max(map(len, cells)) for cells in columns]
        if table.last_below and sum(widths) + len(GAP) * (len(widths) - 1) > console.width:
            _print_below(console, table, chunk, widths, header=header)
            header = False
            continue
        shown = RichTable(box=None, pad_edge=False, show_header=header, header_style="bold cyan")
        for name, width in zip(table.columns, widths, strict=True):
            justify = "right" if name in table.right else "left"
            shown.add_column(
                name,
                justify=justify,  # type: ignore[arg-type]
                overflow="fold",
                no_wrap=width <= SHORT_CELL,
            )
        for row in chunk:
            shown.add_row(*map(Text, row))
        console.print(shown)
        header = False


def _print_below(
    console: Console, table: Table, rows: list[list[str]], widths: Sequence[int], *, header: bool
) -> None:
    """Print rows with the last column below the others."""
    from rich.text import Text

    *fitted, _ = widths
    widest = fitted.index(max(fitted))
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - console.width
    fitted[widest] = min(fitted[widest], max(fitted[widest] - excess, SHORT_CELL))
    if header:
        names = _aligned(table, table.columns, [*fitted, 0])
        console.print(Text(names, style="bold cyan"))
    for *first, last in rows:
        cells = [_cut(cell, width) for cell, width in zip(first, fitted, strict=True)]
        console.print(Text(_aligned(table, cells, fitted)))
        for line in wrap(last, max(console.width - len(INDENT), SHORT_CELL)):
            console.print(Text(INDENT + line))


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def _encode(value: object) -> Any:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")

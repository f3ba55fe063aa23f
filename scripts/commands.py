"""Write docs/reference/commands.md: the help of every command, as the program prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reclaim.cli.application import application
from reclaim.cli.options.panels import COMMANDS, GLOBAL
from reclaim.cli.views.exits import EPILOG

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "commands.md"
HEAD = """\
# Commands

`make schemas` writes this page from the help of the program. `reclaim COMMAND --help` prints the
same text. Every command also takes these options:

"""
WIDTH = 88
_GLOBAL = re.compile(rf"\n{GLOBAL}:\n(?:  .*\n)+")


def text() -> str:
    """The whole page."""
    root = application()
    context = root.make_context("reclaim", [], resilient_parsing=True, terminal_width=WIDTH)
    options = _GLOBAL.search(root.get_help(context) + "\n")
    assert options
    of_all = [line for line in options[0].splitlines()[2:] if "--version" not in line]
    parts = ["\n".join([f"{HEAD}```text", *of_all, "```\n"])]
    for panel, names in COMMANDS.items():
        parts.append(f"\n## {panel}\n")
        for name in names:
            parts += _sections(root.get_command(context, name), name, context)
    return "".join(parts)


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    """A section with the help of a command, or one for each command of a group."""
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=WIDTH)
    children = getattr(command, "commands", {})
    for child, found in children.items():
        yield from _sections(found, child, context)
    if not children:
        path = context.command_path
        shown = _GLOBAL.sub("", command.get_help(context) + "\n")
        shown = shown.replace(f"  {EPILOG}\n", "").strip()
        yield f"\n### {path}\n\n```text\n{shown}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")

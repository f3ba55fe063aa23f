"""Panels: the groups of options and of commands in help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

KIND: Final = "Kind of run (at most one)"
KEEP: Final = "Retention"
LOOK_AT: Final = "Scope"
SAFETY: Final = "Safety"
REPAIR: Final = "Repair"
ENGINE: Final = "Engine"
OUTPUT: Final = "Output"
OTHER: Final = "Options"
GLOBAL: Final = "Global options"

ORDER: Final = ("Arguments", OTHER, KIND, KEEP, LOOK_AT, REPAIR, SAFETY, OUTPUT, ENGINE, GLOBAL)
"""Order of the panels in help."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Data": ("repo", "put", "get", "ls", "rm", "cp", "mv", "stage"),
    "History": ("commit", "branch", "tag", "merge", "diff", "log", "reset", "revert"),
    "Retention": (
        *("policy", "lifecycle", "plan", "show", "apply", "gc", "undo", "purge", "runs"),
    ),
    "Administration": (
        *("init", "demo", "doctor", "lease", "lock", "clean", "reap", "config", "help"),
    ),
}
"""Commands by panel, in the order of help."""


class PanelledCommand(TyperCommand):
    """A command whose help shows its options by panel."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        # Typer writes a required argument in braces.
        pieces = super().collect_usage_pieces(ctx)
        return [piece[1:-1] if piece.startswith("{") else piece for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self.get_params(ctx), ctx, formatter)


class PanelledGroup(TyperGroup):
    """A group of commands whose help shows options by panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)


class PanelledCommands(PanelledGroup):
    """The application, whose help also shows commands by panel."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for panel, names in COMMANDS.items():
            rows = []
            for name in names:
                command = self.get_command(ctx, name)
                assert command is not None
                rows.append((name.ljust(width), command.get_short_help_str(formatter.width)))
            with formatter.section(panel):
                formatter.write_dl(rows)


def panel_of(parameter: Any) -> str:
    """Return the panel of an argument or an option."""
    if parameter.param_type_name == "argument":
        return ORDER[0]
    # Only `--help` comes without a choice: typer adds it.
    return getattr(parameter, "rich_help_panel", None) or (
        GLOBAL if parameter.name == "help" else OTHER
    )


def _write_options(parameters: Iterable[Any], ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in ORDER}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is not None:
            panels[panel_of(parameter)].append(record)
    for panel, records in panels.items():
        if records:
            with formatter.section(panel):
                formatter.write_dl(records)

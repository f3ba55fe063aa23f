"""``reclaim config``: settings and their origins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, cast

import typer

from reclaim.cli.command import command, group
from reclaim.cli.config.settings import DEFAULT, Settings, current
from reclaim.cli.session import Session
from reclaim.cli.views.output import Block, Table

Origin = Literal["option", "variable", "catalog file", "user file", "default"]
"""Origin of a setting."""


def register(app: typer.Typer) -> None:
    config = group(app, "config", "Show the settings.")
    command(config, "show", show)


def show(session: Session) -> None:
    """Show every setting and its origin.

    Secrets are hidden.
    """
    session.output.answer(SettingsAnswer(current()))


class SettingDocument(TypedDict):
    """A setting, its value and its origin."""

    name: str
    value: str | bool | int | None
    """Value without secrets."""
    origin: Origin
    where: str | None
    """Option, variable, or file and line."""
    flag: str
    variable: str
    meaning: str


class SettingsFile(TypedDict):
    """A possible configuration file."""

    origin: str
    path: str
    found: bool


class SettingsDocument(TypedDict):
    """All settings and possible configuration files."""

    settings: Sequence[SettingDocument]
    files: Sequence[SettingsFile]


@dataclass(frozen=True, slots=True)
class SettingsAnswer:
    """Answer that lists settings."""

    settings: Settings

    def document(self) -> SettingsDocument:
        return {
            "settings": [
                {
                    "name": chosen.setting.key,
                    "value": chosen.shown,
                    "origin": cast(Origin, chosen.origin),
                    "where": chosen.where or None,
                    "flag": chosen.setting.flag,
                    "variable": chosen.setting.variable,
                    "meaning": chosen.setting.meaning,
                }
                for chosen in self.settings.chosen.values()
            ],
            "files": [
                {"origin": origin, "path": str(path), "found": exists}
                for origin, path, exists in self.settings.files
            ],
        }

    def view(self) -> Iterator[Block]:
        rows = [
            (
                chosen.setting.key,
                _shown(chosen.shown),
                chosen.origin if chosen.origin == DEFAULT else f"{chosen.origin} {chosen.where}",
                chosen.setting.variable,
            )
            for chosen in self.settings.chosen.values()
        ]
        yield Table(("setting", "value", "from", "variable"), rows)
        yield ""
        for origin, path, exists in self.settings.files:
            yield f"{origin}: {path}" + ("" if exists else " (does not exist)")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)

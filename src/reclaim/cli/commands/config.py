"""``reclaim config``: the settings, and where each comes from."""

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
"""Where a setting comes from."""


def register(app: typer.Typer) -> None:
    config = group(app, "config", "Show the settings.")
    command(config, "show", show)


def show(session: Session) -> None:
    """Show every setting, and where it was set.

    Secrets are hidden.
    """
    session.output.answer(SettingsAnswer(current()))


class SettingDocument(TypedDict):
    """A setting, its value, and where it was set."""

    name: str
    value: str | bool | int | None
    """Without secrets."""
    origin: Origin
    where: str | None
    """The option, the variable, or the file and line."""
    flag: str
    variable: str
    meaning: str


class SettingsFile(TypedDict):
    """A file that was looked for."""

    origin: str
    path: str
    found: bool


class SettingsDocument(TypedDict):
    """Every setting, and the files that were looked for."""

    settings: Sequence[SettingDocument]
    files: Sequence[SettingsFile]


@dataclass(frozen=True, slots=True)
class SettingsAnswer:
    """The answer that lists settings."""

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
                {"origin": origin, "path": str(path), "found": found}
                for origin, path, found in self.settings.files
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
        for origin, path, found in self.settings.files:
            yield f"{origin}: {path}" + ("" if found else " (not there)")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)

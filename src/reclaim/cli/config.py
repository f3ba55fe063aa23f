"""``reclaim config``: the settings, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from reclaim.cli.command import command, group
from reclaim.cli.output import Block, Table
from reclaim.cli.session import Session
from reclaim.cli.settings import DEFAULT, Settings, current


def register(app: typer.Typer) -> None:
    config = group(app, "config", "Show the settings.")
    command(config, "show", show)


def show(session: Session) -> None:
    """Show every setting, its value and where it was set; secrets are hidden."""
    session.output.answer(SettingsAnswer(current()))


@dataclass(frozen=True, slots=True)
class SettingsAnswer:
    """The answer that lists settings."""

    settings: Settings

    def document(self) -> Mapping[str, Any]:
        return {
            "settings": [
                {
                    "name": chosen.setting.key,
                    "value": chosen.shown,
                    "origin": chosen.origin,
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
        yield Table(("setting", "value", "from", "variable"), rows, always_headed=True)
        yield ""
        for origin, path, found in self.settings.files:
            yield f"{origin}: {path}" + ("" if found else " (not there)")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)

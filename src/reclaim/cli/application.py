"""The application: global options, and commands loaded on demand."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from reclaim.cli.command import (
    CatalogOption,
    JsonOption,
    LogFormatOption,
    NoHeaderOption,
    QuietOption,
    VerboseOption,
    take_globals,
)
from reclaim.cli.options import panels
from reclaim.cli.version import show_version
from reclaim.cli.views import exits

COMMANDS = tuple(name for names in panels.COMMANDS.values() for name in names)
"""Each in the module of its name, in the order of help."""


HELP_OPTIONS = ["-h", "--help"]


def build() -> typer.Typer:
    """Build the application with all its commands."""
    # Plain help loads several times faster than rich help.
    app = typer.Typer(
        cls=_Application,
        epilog=exits.EPILOG,
        rich_markup_mode=None,
        context_settings={"help_option_names": HELP_OPTIONS},
    )
    app.callback(invoke_without_command=True)(_root)
    return app


@cache
def application() -> TyperGroup:
    """Return the application, ready to run; built once per process."""
    group = get_command(build())
    assert isinstance(group, TyperGroup)
    return group


def _root(
    ctx: typer.Context,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    log_format: LogFormatOption = None,
    no_header: NoHeaderOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            show_default=False,
            rich_help_panel=panels.GLOBAL,
        ),
    ] = False,
) -> None:
    """A versioned object store that knows what to keep.

    Places are written REPO/REF/PATH; a slash inside a ref is written %2F.
    """
    if version:
        show_version(as_json=as_json)
        raise typer.Exit
    take_globals(ctx, catalog, as_json, quiet, verbose, log_format, no_header)


class _Application(panels.PanelledCommands):
    """Group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()


class _Commands(MutableMapping[str, Any]):
    """Commands by name, loaded on demand."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            if name not in COMMANDS:
                raise KeyError(name)
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            import_module(f"reclaim.cli.commands.{name}").register(app)
            self._loaded |= get_group(app).commands
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        yield from COMMANDS
        yield from (name for name in self._loaded if name not in COMMANDS)

    def __len__(self) -> int:
        return len(list(iter(self)))

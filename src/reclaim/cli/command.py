"""The parts that all commands share: session, global options after the name, exit codes in help."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from reclaim.cli import exits
from reclaim.cli.plain_values import Command, Group
from reclaim.cli.session import CATALOG_VARIABLE, DEFAULT_CATALOG, Globals, Session, output_for

CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="PLACE",
        help=f"The catalog: a folder or a URL. Default: ${CATALOG_VARIABLE}, or {DEFAULT_CATALOG}.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Answer with one JSON document.", show_default=False)
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
MetaOption = Annotated[
    list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="Metadata; repeatable.")
]
CommitterOption = Annotated[
    str | None,
    typer.Option("--committer", metavar="NAME", help="Default: the login name."),
]


def command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Make a function a command. Its first parameter is the session; the rest are its own.

    A parameter whose type is a dataclass stands for the options that are its fields, so that
    several commands can share them.
    """
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()

    def run(ctx: typer.Context, catalog: str | None, as_json: bool, **own: Any) -> None:
        given = (ctx.obj or Globals()).then(catalog, as_json)
        for parameter in parameters:
            if is_dataclass(parameter.annotation):
                group: Any = parameter.annotation
                values = {field.name: own.pop(field.name) for field in fields(group)}
                own[parameter.name] = group(**values)
        function(_session(given), **own)

    shown = [
        _parameter("ctx", typer.Context),
        *(option for parameter in parameters for option in _options(parameter)),
        _parameter("catalog", CatalogOption, default=None),
        _parameter("as_json", JsonOption, default=False),
    ]
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    app.command(name, cls=Command, epilog=exits.epilog())(run)


def group(app: typer.Typer, name: str, summary: str) -> typer.Typer:
    """A command with commands of its own, such as ``repo``."""
    made = typer.Typer(
        cls=Group,
        help=summary,
        epilog=exits.epilog(),
        add_completion=False,
        rich_markup_mode=None,
    )
    made.callback(invoke_without_command=True)(take_globals)
    app.add_typer(made, name=name)
    return made


def take_globals(
    ctx: typer.Context, catalog: CatalogOption = None, as_json: JsonOption = False
) -> None:
    """Note the global options that stand before a command's name."""
    ctx.obj = (ctx.obj or Globals()).then(catalog, as_json)
    if ctx.invoked_subcommand is None:
        if ctx.obj.as_json:
            raise typer.BadParameter("a command is missing", ctx=ctx)
        typer.echo(ctx.get_help())
        raise typer.Exit(exits.USAGE)


def _session(given: Globals) -> Session:
    location = given.catalog or os.environ.get(CATALOG_VARIABLE) or DEFAULT_CATALOG
    return Session(location, given.catalog is not None, output_for(given.as_json))


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = parameter.annotation
    if not is_dataclass(group):
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield _parameter(field.name, hints[field.name], field.default)


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )

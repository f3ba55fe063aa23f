"""The parts that all commands share: session, global options after the name, exit codes in help."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from reclaim.cli import exits
from reclaim.cli.logs import logging_to_stderr
from reclaim.cli.plain_values import Command, Group
from reclaim.cli.session import CATALOG_VARIABLE, DEFAULT_CATALOG, Globals, Session, output_for
from reclaim.cli.verbosity import CURRENT, LOG_FORMAT_VARIABLE, LOG_VARIABLE, find_verbosity

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
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress.", show_default=False)
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help=f"Log what is done, on stderr; -vv logs more. The same as {LOG_VARIABLE}=info.",
        show_default=False,
    ),
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help=f"Log lines as text, or as JSON for programs. Default: ${LOG_FORMAT_VARIABLE}, "
        "or text.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)]
MetaOption = Annotated[
    list[str] | None, typer.Option("--meta", metavar="KEY=VALUE", help="Metadata; repeatable.")
]
CommitterOption = Annotated[
    str | None,
    typer.Option("--committer", metavar="NAME", help="Default: the login name."),
]


GLOBAL_OPTIONS: Mapping[str, Any] = {
    "catalog": CatalogOption,
    "as_json": JsonOption,
    "quiet": QuietOption,
    "verbose": VerboseOption,
    "log_format": LogFormatOption,
}
"""Options that every command has, by the field of ``Globals`` that they set."""


def command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Make a function a command. Its first parameter is the session; the rest are its own.

    A parameter whose type is a dataclass stands for the options that are its fields, so that
    several commands can share them.
    """
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()

    def run(ctx: typer.Context, **own: Any) -> None:
        own_globals = Globals(**{name: own.pop(name) for name in GLOBAL_OPTIONS})
        given = (ctx.obj or Globals()).then(own_globals)
        is_logged = bool(own.get("log"))
        for parameter in parameters:
            if is_dataclass(parameter.annotation):
                group: Any = parameter.annotation
                values = {field.name: own.pop(field.name) for field in fields(group)}
                own[parameter.name] = group(**values)
        asked = find_verbosity(
            quiet=given.quiet,
            verbose=given.verbose or int(is_logged),
            log_format=given.log_format,
        )
        CURRENT.set(asked)
        with logging_to_stderr(asked):
            function(_session(given), **own)

    shown = [
        _parameter("ctx", typer.Context),
        *(option for parameter in parameters for option in _options(parameter)),
        *(
            _parameter(name, option, default=getattr(Globals(), name))
            for name, option in GLOBAL_OPTIONS.items()
        ),
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
    ctx: typer.Context,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    log_format: LogFormatOption = None,
) -> None:
    """Note the global options that stand before a command's name."""
    ctx.obj = (ctx.obj or Globals()).then(Globals(catalog, as_json, quiet, verbose, log_format))
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

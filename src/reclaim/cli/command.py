"""Parts shared by all commands: session, global options, exit codes in help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ParameterInfo

from reclaim.catalog.location import DEFAULT_CATALOG
from reclaim.cli.config.settings import (
    BY_KEY,
    ENGINES,
    FORMATS,
    SETTINGS,
    find_settings,
)
from reclaim.cli.config.settings import CURRENT as CURRENT_SETTINGS
from reclaim.cli.options.completion import completion_of
from reclaim.cli.options.panels import GLOBAL, OUTPUT, SAFETY, PanelledCommand, PanelledGroup
from reclaim.cli.options.verbosity import CURRENT, Verbosity
from reclaim.cli.progress.logs import logging_to_stderr
from reclaim.cli.session import Globals, Session, output_for
from reclaim.cli.views import exits
from reclaim.errors import InvalidInput

CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="PLACE",
        help="The catalog: a folder or a URL. "
        f"Default: ${BY_KEY['catalog'].variable}, or {DEFAULT_CATALOG}.",
        show_default=False,
        rich_help_panel=GLOBAL,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Answer with a JSON document.",
        show_default=False,
        rich_help_panel=GLOBAL,
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Show no progress.", show_default=False, rich_help_panel=GLOBAL
    ),
]
VerboseOption = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help=f"Log to stderr; -vv logs more. The same as {BY_KEY['log'].variable}=info.",
        show_default=False,
        rich_help_panel=GLOBAL,
    ),
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="Log lines as text, or as json for programs. "
        f"Default: ${BY_KEY['log_format'].variable}, or text.",
        show_default=False,
        rich_help_panel=GLOBAL,
    ),
]
NoHeaderOption = Annotated[
    bool,
    typer.Option(
        "--no-header",
        help="Leave out the headers of tables.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Skip the confirmation.", show_default=False, rich_help_panel=SAFETY
    ),
]
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
    "no_header": NoHeaderOption,
}
"""Options of every command, by their field of ``Globals``."""


def command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Register a function as a command. Its first parameter is the session.

    A parameter with a dataclass as its type stands for a group of options, its fields. Commands
    share such groups.
    """
    _, *parameters = inspect.signature(function, eval_str=True).parameters.values()

    def run(ctx: typer.Context, **values: Any) -> None:
        after_command = Globals(**{name: values.pop(name) for name in GLOBAL_OPTIONS})
        globals_ = (ctx.obj or Globals()).then(after_command)
        settings = find_settings(_options_given(ctx, globals_, values))
        CURRENT_SETTINGS.set(settings)
        for key, name in _FILLED.items():
            if name in values and settings.is_set(key):
                values[name] = settings[key]
        for parameter in parameters:
            if is_dataclass(parameter.annotation):
                group: Any = parameter.annotation
                options = {field.name: values.pop(field.name) for field in fields(group)}
                values[parameter.name] = group(**options)
        verbosity = Verbosity.of(settings)
        CURRENT.set(verbosity)
        session = Session(
            str(settings["catalog"]),
            globals_.catalog is not None,
            output_for(globals_.as_json, no_header=globals_.no_header),
        )
        with logging_to_stderr(verbosity):
            function(session, **values)

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
    app.command(name, cls=PanelledCommand, epilog=exits.EPILOG)(run)


def group(app: typer.Typer, name: str, summary: str) -> typer.Typer:
    """Make a group of commands, such as ``repo``."""
    made = typer.Typer(
        cls=PanelledGroup,
        help=summary,
        epilog=exits.EPILOG,
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
    no_header: NoHeaderOption = False,
) -> None:
    """Store the global options given before the name of a command."""
    before_command = Globals(catalog, as_json, quiet, verbose, log_format, no_header)
    ctx.obj = (ctx.obj or Globals()).then(before_command)
    if ctx.invoked_subcommand is None:
        if ctx.obj.as_json:
            raise typer.BadParameter("a command is missing", ctx=ctx)
        typer.echo(ctx.get_help())
        raise typer.Exit(exits.USAGE)


_FILLED: Mapping[str, str] = {
    setting.key: setting.option
    for setting in SETTINGS
    if setting.key in ("committer", "min_age", "quarantine")
}
"""Options of some commands, filled from settings if not given."""


def _options_given(
    ctx: typer.Context, globals_: Globals, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings on the command line, by key."""
    if globals_.quiet and globals_.verbose:
        raise InvalidInput("-q and -v exclude each other")
    options: dict[str, Any] = {
        "catalog": globals_.catalog,
        "quiet": globals_.quiet or None,
        "log_format": _known("--log-format", globals_.log_format, FORMATS),
    }
    if globals_.verbose:
        options["log"] = "debug" if globals_.verbose > 1 else "info"
    for setting in SETTINGS:
        source = ctx.get_parameter_source(setting.option) if setting.option in values else None
        if source is not None and source.name == "COMMANDLINE":
            options[setting.key] = values[setting.option]
    _known("--engine", options.get("engine"), ENGINES)
    return {key: value for key, value in options.items() if value is not None}


def _known(flag: str, value: str | None, known: Sequence[str]) -> str | None:
    if value is not None and value not in known:
        raise InvalidInput(f"{flag} is {value!r}", hint=f"set it to one of {', '.join(known)}")
    return value


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = parameter.annotation
    if not is_dataclass(group):
        yield _parameter(parameter.name, group, parameter.default)
        return
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield _parameter(field.name, hints[field.name], field.default)


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    for info in getattr(annotation, "__metadata__", ()):
        if isinstance(info, ParameterInfo) and info.autocompletion is None:
            metavar = info.metavar if isinstance(info.metavar, str) else None
            info.autocompletion = completion_of(metavar)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )

"""The entry point: runs the application and turns whatever happens into an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Annotated, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_group

from reclaim import __version__
from reclaim.cli import (
    apply,
    branch,
    clean,
    commit,
    cp,
    demo,
    diff,
    doctor,
    exits,
    expire,
    get,
    init,
    lease,
    log,
    ls,
    merge,
    mv,
    plan,
    purge,
    put,
    repo,
    reset,
    revert,
    rm,
    runs,
    show,
    signals,
    stage,
    tag,
    undo,
)
from reclaim.cli import gc as collector
from reclaim.cli.command import CatalogOption, JsonOption, take_globals
from reclaim.cli.failure import Failure
from reclaim.cli.output import ConsoleOutput, Done
from reclaim.cli.running import DEBUG_VARIABLE
from reclaim.cli.session import output_for

COMMANDS = (
    init,
    demo,
    repo,
    put,
    get,
    ls,
    rm,
    cp,
    mv,
    stage,
    commit,
    branch,
    tag,
    merge,
    diff,
    log,
    reset,
    revert,
    expire,
    plan,
    show,
    apply,
    collector,
    undo,
    purge,
    runs,
    doctor,
    lease,
    clean,
)


def build() -> typer.Typer:
    """The application with all its commands."""
    # Plain help loads several times faster than rich help.
    app = typer.Typer(epilog=exits.epilog(), add_completion=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(_root)
    for module in COMMANDS:
        module.register(app)
    return app


@cache
def application() -> TyperGroup:
    """The same, ready to run; made once a process, which may run several commands."""
    return get_group(build())


def _root(
    ctx: typer.Context,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", show_default=False)
    ] = False,
) -> None:
    """A versioned object store that knows what to keep.

    Places are written REPO/REF/PATH; a slash inside a ref is written %2F.
    """
    if version:
        output_for(as_json).answer(Done(f"reclaim {__version__}", {"version": __version__}))
        raise typer.Exit
    take_globals(ctx, catalog, as_json)


def script() -> NoReturn:
    """The command ``reclaim``: runs one command in a process of its own, and ends the process.

    Most of a short command's time goes into loading libraries and, at the end, taking them apart
    again. The first is quicker when garbage is looked for less often; the second is left out.
    Nothing waits for it: answers are flushed, catalogs closed and temporary files gone by then.
    """
    gc.set_threshold(50_000)
    signals.install()
    code = main()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of local files need not be valid Unicode.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(args)
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _abandon_stdout()
        return exits.BROKEN_PIPE


def _run(args: list[str]) -> int:
    try:
        app = application()
        with app.make_context("reclaim", list(args)) as ctx:
            app.invoke(ctx)
        sys.stdout.flush()
        return exits.DONE
    except typer.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exception(error)
        failure = Failure.of(error)
        _report(failure, as_json=_wants_json(args))
        return failure.exit_code


def _report(failure: Failure, *, as_json: bool) -> None:
    try:
        output_for(as_json).fail(failure)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        # It is stdout that cannot be written: a full disk, for one.
        _abandon_stdout()
        ConsoleOutput().fail(failure)


def _abandon_stdout() -> None:
    """Let what is left in the buffer of stdout go nowhere, so that nothing is flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json(args: list[str]) -> bool:
    """Whether JSON was asked for, also when the rest of the line cannot be understood."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


if __name__ == "__main__":
    script()

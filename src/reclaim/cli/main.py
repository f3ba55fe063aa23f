"""The entry point: runs the application and turns whatever happens into an exit code.

Whatever is loaded here is loaded by every command, so the application itself is loaded late.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from reclaim.cli import signals
from reclaim.cli.views import exits
from reclaim.cli.views.exits import DEBUG_VARIABLE

if TYPE_CHECKING:
    from reclaim.cli.views.failure import Failure

COMPLETION_VARIABLE = "_RECLAIM_COMPLETE"
"""Set by a shell that asks how a line may go on."""


def script() -> NoReturn:
    """The command ``reclaim``: runs one command in a process of its own, and ends the process.

    Most of a short command's time goes into loading libraries and, at the end, taking them apart
    again. The first is quicker when garbage is looked for less often; the second is left out.
    Nothing waits for it: answers are flushed, catalogs closed and temporary files gone by then.
    """
    gc.set_threshold(200_000)
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
    if "--version" in args and set(args) <= {"--version", "--json"}:
        from reclaim.cli.version import show_version

        show_version(as_json="--json" in args)
        sys.stdout.flush()
        return exits.DONE

    import typer

    from reclaim.cli.application import application

    try:
        app = application()
        if os.environ.get(COMPLETION_VARIABLE):
            app.main(args, "reclaim")
        with app.make_context("reclaim", list(args)) as ctx:
            app.invoke(ctx)
        sys.stdout.flush()
        return exits.DONE
    except typer.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    except SystemExit as end:
        # Typer ends so after the options of completion, and after an answer to a shell.
        sys.stdout.flush()
        return int(end.code or exits.DONE)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG_VARIABLE):
            import traceback

            traceback.print_exception(error)
        from reclaim.cli.views.failure import Failure

        failure = Failure.of(error)
        _report(failure, as_json=_wants_json(args))
        return failure.exit_code


def _report(failure: Failure, *, as_json: bool) -> None:
    from reclaim.cli.session import output_for
    from reclaim.cli.views.output import ConsoleOutput

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

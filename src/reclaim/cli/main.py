"""Entry point: run the application, and convert every outcome to an exit code.

Imports here cost time in every command, so the application itself is imported late.
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
"""Set by a shell for completion."""


def script() -> NoReturn:
    """The program ``reclaim``: run a command, and end the process.

    Most of the time of a short command is the import of libraries, and their clean-up at the end.
    A higher threshold for Python's garbage collector speeds up imports. ``os._exit`` skips the
    clean-up: answers are flushed, catalogs closed and temporary files deleted before.
    """
    gc.set_threshold(200_000)
    signals.install()
    code = main()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Return its exit code."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of local files need not be valid Unicode.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(args)
    except BrokenPipeError:
        # The reader closed the pipe.
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
        # Typer exits like this after completion.
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
        # Writing to stdout failed, such as on a full disk.
        _abandon_stdout()
        ConsoleOutput().fail(failure)


def _abandon_stdout() -> None:
    """Redirect stdout to the null device: a flush at exit discards the buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json(args: list[str]) -> bool:
    """Whether ``--json`` is on the command line, even if other arguments are invalid."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


if __name__ == "__main__":
    script()

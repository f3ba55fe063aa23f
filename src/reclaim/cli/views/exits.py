"""The exit codes, as `reclaim help exit-codes` lists them. They come from the tree of errors."""

from __future__ import annotations

from collections.abc import Iterable

from reclaim.errors import Corrupt, NothingToCommit, ReclaimError

DONE = 0
UNEXPECTED = 1
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143
BROKEN_PIPE = 141

DEBUG_VARIABLE = "RECLAIM_DEBUG"


def meanings() -> dict[int, str]:
    """Each exit code that a command can end with, and what it means."""
    branches = {branch.exit_code: branch.__doc__ or "" for branch in ReclaimError.__subclasses__()}
    return {
        DONE: "Done.",
        UNEXPECTED: f"Something unexpected; {DEBUG_VARIABLE}=1 shows where.",
        **dict(sorted(branches.items())),
        NothingToCommit.exit_code: NothingToCommit.__doc__ or "",
        INTERRUPTED: "Interrupted with Ctrl-C.",
        TERMINATED: "Terminated with SIGTERM.",
    }


def worst(codes: Iterable[int]) -> int:
    """The code of several outcomes: corruption, then the unexpected, then the higher one."""
    order = {Corrupt.exit_code: 1_000, UNEXPECTED: 999}
    return max(codes, key=lambda code: order.get(code, code), default=DONE)


def kinds() -> dict[int, list[str]]:
    """The kinds of errors that end with each code."""
    found: dict[int, list[str]] = {UNEXPECTED: ["unexpected"], USAGE: ["usage"]}
    found |= {INTERRUPTED: ["interrupted"], TERMINATED: ["terminated"]}
    below = [ReclaimError]
    while below:
        error = below.pop(0)
        of_code = found.setdefault(error.exit_code, [])
        if error.kind not in of_code:
            of_code.append(error.kind)
        below += error.__subclasses__()
    return found


EPILOG = "Exit codes: 0 if all was done; the others are in `reclaim help exit-codes`."
"""The end of a command's help."""

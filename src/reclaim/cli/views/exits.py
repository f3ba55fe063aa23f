"""Exit codes, derived from the error classes. `reclaim help exit-codes` lists them."""

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
    """Return all exit codes and their meanings."""
    branches = {branch.exit_code: branch.__doc__ or "" for branch in ReclaimError.__subclasses__()}
    return {
        DONE: "Done.",
        UNEXPECTED: f"Unexpected error; {DEBUG_VARIABLE}=1 shows the traceback.",
        **dict(sorted(branches.items())),
        NothingToCommit.exit_code: NothingToCommit.__doc__ or "",
        INTERRUPTED: "Interrupted with Ctrl-C.",
        TERMINATED: "Terminated with SIGTERM.",
    }


def worst(codes: Iterable[int]) -> int:
    """Return the worst code: corruption, then unexpected errors, then the highest."""
    order = {Corrupt.exit_code: 1_000, UNEXPECTED: 999}
    return max(codes, key=lambda code: order.get(code, code), default=DONE)


def kinds() -> dict[int, list[str]]:
    """Return the kinds of errors by exit code."""
    kinds_by_code: dict[int, list[str]] = {UNEXPECTED: ["unexpected"], USAGE: ["usage"]}
    kinds_by_code |= {INTERRUPTED: ["interrupted"], TERMINATED: ["terminated"]}
    below = [ReclaimError]
    while below:
        error = below.pop(0)
        of_code = kinds_by_code.setdefault(error.exit_code, [])
        if error.kind not in of_code:
            of_code.append(error.kind)
        below += error.__subclasses__()
    return kinds_by_code


EPILOG = "Exit codes: 0 for success; see `reclaim help exit-codes` for the others."
"""Last line of a command's help."""

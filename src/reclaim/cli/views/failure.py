"""A failure: error message, hint, details for programs, and exit code."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import typer

from reclaim.cli.signals import Terminated
from reclaim.cli.views import exits
from reclaim.cli.views.documents import FailureDocument
from reclaim.errors import InvalidInput, OutOfSpace, ReclaimError, StorageDenied

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a command."""

    kind: str
    message: str
    exit_code: int
    hint: str | None = None
    details: dict[str, Any] | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Convert an exception to a failure."""
        if isinstance(error, OSError):
            error = from_system(error)
        if isinstance(error, ReclaimError):
            return cls(error.kind, error.message, error.exit_code, error.hint, error.details)
        if isinstance(error, typer.TyperException):
            message = error.format_message().rstrip(".")
            context = getattr(error, "ctx", None)
            hint = f"see `{context.command_path if context else 'reclaim'} --help`"
            return cls("usage", _uncapitalized(message), exits.USAGE, hint)
        if isinstance(error, KeyboardInterrupt):
            terminated = isinstance(error, Terminated)
            kind = "terminated" if terminated else "interrupted"
            code = exits.TERMINATED if terminated else exits.INTERRUPTED
            summary = f"{kind}; finished work is kept, and nothing is half written"
            hints = ["run it again to do the rest", *getattr(error, "__notes__", ())]
            return cls(kind, summary, code, "; ".join(hints))
        summary = str(error).split("\n", 1)[0]
        return cls(
            "unexpected",
            f"{type(error).__name__}: {summary}" if summary else type(error).__name__,
            exits.UNEXPECTED,
            "this is a bug in Reclaim; RECLAIM_DEBUG=1 shows the traceback",
        )

    def document(self) -> FailureDocument:
        return {
            "error": {
                "kind": self.kind,
                "message": self.message,
                "hint": self.hint,
                "details": self.details or {},
            }
        }


def from_system(error: OSError) -> ReclaimError:
    """Convert an operating system error about a local file."""
    reason = error.strerror or str(error)
    message = f"{error.filename}: {reason}" if error.filename else reason
    if error.errno in _FULL:
        return OutOfSpace(message, hint="free some space and run it again")
    if error.errno in _DENIED:
        return StorageDenied(message, hint="check the permissions")
    return InvalidInput(message, hint="name another file or folder")


def _uncapitalized(message: str) -> str:
    return message[:1].lower() + message[1:]

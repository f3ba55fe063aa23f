"""The errors of Reclaim, grouped by what a handler would do.

    ReclaimError                 exit 1   HTTP 500
    ├── InvalidInput             exit 2   HTTP 400   correct the call
    │   ├── InvalidName, InvalidPath, InvalidToken
    │   └── NothingToCommit      exit 10  HTTP 400   nothing to do, and nothing is wrong
    ├── NotFound                 exit 3   HTTP 404   name something that exists
    ├── Conflict                 exit 4   HTTP 409   look at what changed, try again
    │   ├── AlreadyExists, DirtyBranch, MergeConflict
    │   ├── TokenUsed, TokenExpired, LeaseLapsed, LockLost
    │   └── TransactionFailed
    ├── Unavailable              exit 5   HTTP 503   transient: wait, free space, fix access
    │   ├── DatabaseUnavailable, DatabaseLocked
    │   └── StorageUnavailable, StorageDenied, OutOfSpace
    ├── Refused                  exit 6   HTTP 422   a safety rule said no
    │   ├── ClockSkew, OwnedAddress, NestedStorage
    │   ├── ForeignStorage, StorageAhead, AnotherDatabase
    │   ├── UnsafeFolder, VersioningOff, UnknownVersion
    │   └── PlanRefused, IncompleteRead, TooMuch, OutOfTime
    ├── Partial                  exit 7   HTTP 500   stopped on the way; run it again
    ├── Corrupt                  exit 8   HTTP 500   look before anything else runs
    └── Gone                     exit 9   HTTP 410   collected; the message says by which run

A message says what happened, to what, and (in ``hint``) what to do next. ``kind`` is stable
and is what programs should compare; exit code, HTTP status and JSON body follow from the class.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ReclaimError(Exception):
    """The root of everything that Reclaim raises on purpose."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def body(self) -> dict[str, Any]:
        """The error as programs see it, on the command line with ``--json`` and over HTTP."""
        body: dict[str, Any] = {"kind": self.kind, "message": self.message}
        if self.hint:
            body["hint"] = self.hint
        if self.details:
            body["details"] = self.details
        return body


class InvalidInput(ReclaimError):
    """The call itself is wrong; repeating it unchanged cannot help."""

    kind, exit_code, http_status = "invalid_input", 2, 400


class InvalidName(InvalidInput):
    kind = "invalid_name"


class InvalidPath(InvalidInput):
    kind = "invalid_path"


class InvalidToken(InvalidInput):
    kind = "invalid_token"


class NothingToCommit(InvalidInput):
    """There is nothing to commit; the branch is as it was."""

    kind, exit_code = "nothing_to_commit", 10


class NotFound(ReclaimError):
    """Something that the call names does not exist."""

    kind, exit_code, http_status = "not_found", 3, 404


class Conflict(ReclaimError):
    """Something else changed, or is in the way; nothing was written."""

    kind, exit_code, http_status = "conflict", 4, 409


class AlreadyExists(Conflict):
    kind = "already_exists"


class DirtyBranch(Conflict):
    kind = "dirty_branch"


class MergeConflict(Conflict):
    kind = "merge_conflict"


class TokenUsed(Conflict):
    kind = "token_used"


class TokenExpired(Conflict):
    kind = "token_expired"


class LeaseLapsed(Conflict):
    kind = "lease_lapsed"


class LockLost(Conflict):
    kind = "lock_lost"


class TransactionFailed(Conflict):
    """A save lost a race, or what it stands on is being collected."""

    kind = "transaction_failed"


class Unavailable(ReclaimError):
    """Database or storage cannot serve the call now; nothing was lost."""

    kind, exit_code, http_status = "unavailable", 5, 503


class DatabaseUnavailable(Unavailable):
    kind = "database_unavailable"


class DatabaseLocked(Unavailable):
    kind = "database_locked"


class StorageUnavailable(Unavailable):
    kind = "storage_unavailable"


class StorageDenied(Unavailable):
    kind = "storage_denied"


class OutOfSpace(Unavailable):
    kind = "out_of_space"


class Refused(ReclaimError):
    """A safety rule said no."""

    kind, exit_code, http_status = "refused", 6, 422


class ClockSkew(Refused):
    kind = "clock_skew"


class OwnedAddress(Refused):
    kind = "owned_address"


class NestedStorage(Refused):
    kind = "nested_storage"


class ForeignStorage(Refused):
    kind = "foreign_storage"


class StorageAhead(Refused):
    kind = "storage_ahead"


class AnotherDatabase(Refused):
    """The storage is the home of another database than the one that would collect there."""

    kind = "another_database"


class UnsafeFolder(Refused):
    """A storage folder holds a link or a mount, under which a file can have a second name."""

    kind = "unsafe_folder"


class VersioningOff(Refused):
    """A bucket does not keep versions any more, so that a delete marker would lose bytes."""

    kind = "versioning_off"


class UnknownVersion(Refused):
    kind = "unknown_version"


class PlanRefused(Refused):
    """A plan that is not for this store, or not as it was written."""

    kind = "plan_refused"


class IncompleteRead(Refused):
    """Less was read than there must be; what was read is not enough to delete by."""

    kind = "incomplete_read"


class TooMuch(Refused):
    """A plan would take more than a person would expect."""

    kind = "too_much"


class OutOfTime(Refused):
    """A run took longer than the leases allow."""

    kind = "out_of_time"


class Partial(ReclaimError):
    """Work stopped on the way and left a valid store; running it again finishes it."""

    kind, exit_code = "partial", 7


class Corrupt(ReclaimError):
    """Data that must be there is missing or unreadable."""

    kind, exit_code = "corrupt", 8


class Gone(ReclaimError):
    """Something that the call names was removed by a run."""

    kind, exit_code, http_status = "gone", 9, 410

"""The errors of Reclaim, grouped by their handling.

    ReclaimError                 exit 1   HTTP 500
    ├── InvalidInput             exit 2   HTTP 400   correct the call
    │   ├── InvalidName, InvalidPath, InvalidToken
    │   └── NothingToCommit      exit 10  HTTP 400   nothing to do; no mistake
    ├── NotFound                 exit 3   HTTP 404   name an existing object or ref
    ├── Conflict                 exit 4   HTTP 409   check the change, try again
    │   ├── AlreadyExists, DirtyBranch, MergeConflict
    │   ├── TokenUsed, TokenExpired, LeaseLapsed, LockLost
    │   └── TransactionFailed
    ├── Unavailable              exit 5   HTTP 503   transient: wait, free space, fix access
    │   ├── DatabaseUnavailable, DatabaseLocked
    │   └── StorageUnavailable, StorageDenied, OutOfSpace
    ├── Refused                  exit 6   HTTP 422   refused by a safety rule
    │   ├── ClockSkew, OwnedAddress, NestedStorage
    │   ├── ForeignStorage, StorageAhead, AnotherDatabase
    │   ├── UnsafeFolder, VersioningOff, UnknownVersion
    │   └── PlanRefused, IncompleteRead, TooMuch, OutOfTime
    ├── Partial                  exit 7   HTTP 500   stopped on the way; run it again
    ├── Corrupt                  exit 8   HTTP 500   look before anything else runs
    └── Gone                     exit 9   HTTP 410   collected; the message says by which run

A message names the event and the object; its ``hint`` gives the next step. ``kind`` is stable:
programs should compare it. Exit code, HTTP status and JSON body follow from the class.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ReclaimError(Exception):
    """Base class of all errors Reclaim raises on purpose."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def body(self) -> dict[str, Any]:
        """Return the error for programs, on the command line with ``--json`` and over HTTP."""
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
    """There is nothing to commit; the branch is unchanged."""

    kind, exit_code = "nothing_to_commit", 10


class NotFound(ReclaimError):
    """A repository, ref, object or file named in the call does not exist."""

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
    """A save lost a race, or depends on a commit being collected."""

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
    """A safety rule refused the call."""

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
    """The storage belongs to another database than the database of this run."""

    kind = "another_database"


class UnsafeFolder(Refused):
    """A storage folder holds a link or a mount, which can give a file a second name."""

    kind = "unsafe_folder"


class VersioningOff(Refused):
    """A bucket is no longer versioned, so a delete marker would lose bytes."""

    kind = "versioning_off"


class UnknownVersion(Refused):
    kind = "unknown_version"


class PlanRefused(Refused):
    """A plan is not for this store, or was changed after it was written."""

    kind = "plan_refused"


class IncompleteRead(Refused):
    """Less was read than expected, which is not enough to delete by."""

    kind = "incomplete_read"


class TooMuch(Refused):
    """A plan would delete more than expected."""

    kind = "too_much"


class OutOfTime(Refused):
    """A run took longer than the leases allow."""

    kind = "out_of_time"


class Partial(ReclaimError):
    """Work stopped on the way and left a valid store; running it again finishes it."""

    kind, exit_code = "partial", 7


class Corrupt(ReclaimError):
    """Required data is missing or unreadable."""

    kind, exit_code = "corrupt", 8


class Gone(ReclaimError):
    """Data named in the call was removed by a run."""

    kind, exit_code, http_status = "gone", 9, 410

"""Types of JSON answers. ``scripts/schemas.py`` writes the published schemas from them.

The type checker validates documents; the types cost nothing at run time. The docstring of a class
or a field is its description in the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict


@dataclass(frozen=True, slots=True)
class Form:
    """Pattern and format of a text, for the schema."""

    pattern: str
    format: str = ""

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        named = {"format": self.format} if self.format else {}
        return {**handler(schema), **named, "pattern": self.pattern}


Id = Annotated[str, Form("^[0-9a-f]{32}$")]
"""The id of a commit, a run or a repository."""

INSTANT_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
"""Form of every ``datetime`` in an answer."""

InstantText = Annotated[str, Form(INSTANT_PATTERN, "date-time")]
"""An instant in UTC as text."""

Verdict = Literal["kept", "expired", "unreachable", "condemned"]
"""Decision on a commit."""

NamedKind = Literal["branch", "tag"]
"""The kind of a ref of a catalog."""

PolicyOrigin = Literal["given", "stored", "none", ""]
"""Source of the policy of a plan; "" if unknown."""


class EntryDocument(TypedDict):
    """An object on a branch or in a commit."""

    path: str
    size: int
    created_at: datetime
    checksum: str | None
    """SHA-256 of the bytes, if known."""
    content_type: str
    metadata: Mapping[str, str]
    address: str
    """Address of the bytes in the catalog's storage, or a URL."""


class CommitDocument(TypedDict):
    """A commit."""

    id: Id
    parents: Sequence[Id]
    written_at: datetime
    committer: str
    message: str
    metadata: Mapping[str, str]
    marked: bool
    """Whether an expiration replaced or dropped parents."""


class RefDocument(TypedDict):
    """A branch or a tag."""

    name: str
    kind: NamedKind
    commit: Id
    created_at: datetime
    default: bool


class RefsDocument(TypedDict):
    """Branches and tags."""

    refs: Sequence[RefDocument]


class RefCreated(TypedDict):
    """A created branch or tag."""

    repository: str
    name: str
    commit: Id


class RefDeleted(TypedDict):
    """A deleted branch or tag."""

    repository: str
    deleted: str


class RepositoryDocument(TypedDict):
    """A repository."""

    name: str
    uid: Id
    default_branch: str
    created_at: datetime


class RulesRemoved(TypedDict):
    """The removal of a stored policy or of stored lifecycle rules."""

    repository: str
    removed: bool


class ErrorDocument(TypedDict):
    """An error."""

    kind: str
    """Kind of the error, for programs; see docs/json.md."""
    message: str
    hint: str | None
    details: Mapping[str, Any]
    """Facts in the message."""


class FailureDocument(TypedDict):
    """Answer of a failed command."""

    error: ErrorDocument


class TooYoungDocument(TypedDict):
    """Unreferenced objects younger than the minimum age. A later run may delete them."""

    objects: int
    bytes: int
    snapshots: int
    """Snapshots kept only for their age, in stores with such snapshots."""
    first_at: datetime
    """Time when the first is old enough."""
    all_at: datetime
    """Time when all are old enough."""


class DecisionDocument(TypedDict):
    """A commit with the decision and the reasons, the main reason first."""

    commit: str
    written_at: datetime | None
    message: str
    refs: Sequence[str]
    decision: Verdict
    """Decision of the policy. Commits outside the policy were already unreachable, or marked for
    deletion by an earlier run."""
    reasons: Sequence[str]


class HolderDocument(TypedDict):
    """A ref or an undo that holds expired snapshots."""

    kind: Literal["branch", "tag", "undo"]
    ref: str | None
    """Name of the branch or tag; null for an undo."""
    run: str | None
    """Id of the undone run; null for a branch or tag."""
    until: datetime | None
    """End of the hold of an undo; null for a branch or tag."""
    commits: int
    """Number of expired snapshots held. Each snapshot counts for a single holder."""


class AppliedDocument(TypedDict):
    """Summary of an apply."""

    until: InstantText | None
    """Quarantined objects can be restored at least until then; null if they were deleted."""
    compared: str | None
    """Reason why all objects were compared with live data again; null if the plan was trusted."""
    unplanned: int
    """Snapshots outside the plan that the store's own library removed from history; they stay."""
    spared: int
    """Snapshots of the plan left in the history by the store's own library."""
    objects: int
    """Objects deleted, or moved to quarantine."""
    bytes: int
    failed: int
    """Objects not removed because of an error; apply again."""
    missing: int
    """Objects already missing."""
    dropped: int
    """Objects of the plan that are referenced again, or already removed."""
    condemned: int
    """Removed snapshots."""
    collected: int
    """Removed snapshots without remaining objects."""
    reparented: int
    """Snapshots with changed parents."""
    released: int
    """Snapshots made unreachable by the change of parents."""
    deleted_refs: Sequence[str]
    """Branches and tags deleted with their expired snapshots."""
    exclude: Sequence[str]
    """The globs of --exclude."""
    excluded: int
    """Objects of the plan left out by --exclude."""
    excluded_bytes: int
    excluded_list: str
    """Folder with the list of excluded objects; empty without exclusions."""


class ApplyDocument(AppliedDocument):
    """Result of an apply."""

    run: Id
    plan: str
    store: str
    already_applied: bool
    """Whether an earlier apply of the plan did all the work, and this apply nothing."""
    finished_at: datetime | None
    """End of the earlier apply; null without an earlier apply, or if not recorded."""

"""The nouns of JSON answers, as types. ``scripts/schemas.py`` makes the published schemas of them.

Fields are checked where a document is made, and cost nothing when a command runs. The docstring of
a class or of a field is its description in the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a text, in the annotation of a type; a schema has it."""

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
"""The form of every ``datetime`` in an answer."""

InstantText = Annotated[str, Form(INSTANT_PATTERN, "date-time")]
"""An instant in UTC that is written already."""

Verdict = Literal["kept", "expired", "unreachable", "condemned"]
"""What becomes of a commit."""

NamedKind = Literal["branch", "tag"]
"""The kind of a ref of a catalog."""

PolicyOrigin = Literal["given", "stored", "none", ""]
"""Where the policy of a plan came from; "" where it is not known."""


class EntryDocument(TypedDict):
    """An object on a branch or in a commit."""

    path: str
    size: int
    created_at: datetime
    checksum: str | None
    """SHA-256 of the bytes, where it is known."""
    content_type: str
    metadata: Mapping[str, str]
    address: str
    """Where the bytes are: in the catalog's storage, or a URL."""


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
    """A branch or a tag that was created."""

    repository: str
    name: str
    commit: Id


class RefDeleted(TypedDict):
    """A branch or a tag that was deleted."""

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
    """What programs compare; see docs/json.md."""
    message: str
    hint: str | None
    details: Mapping[str, Any]
    """Facts in the message."""


class FailureDocument(TypedDict):
    """The answer of a command that failed."""

    error: ErrorDocument


class TooYoungDocument(TypedDict):
    """Objects without a reference that are younger than the margin: they may go later."""

    objects: int
    bytes: int
    snapshots: int
    """Snapshots that only their age keeps, where a store has such."""
    first_at: datetime
    """When the first of them is old enough."""
    all_at: datetime
    """When the last of them is."""


class DecisionDocument(TypedDict):
    """A commit, what becomes of it, and why; the first reason is the main one."""

    commit: str
    written_at: datetime | None
    message: str
    refs: Sequence[str]
    decision: Verdict
    """What the policy says, or for a commit that it is not asked about, that no ref reached it
    before either, or that an earlier run condemned it."""
    reasons: Sequence[str]


class HolderDocument(TypedDict):
    """A holder of expired snapshots that stay."""

    kind: Literal["branch", "tag", "undo"]
    ref: str | None
    """The branch or tag; null for an undo."""
    run: str | None
    """The run that was undone; null for a branch or tag."""
    until: datetime | None
    """When the hold of an undo ends; null for a branch or tag."""
    commits: int
    """Expired snapshots that it holds; each counts for one holder."""


class AppliedDocument(TypedDict):
    """The summary of an apply."""

    until: InstantText | None
    """Until when what is in quarantine can be brought back; null if it was deleted."""
    compared: str | None
    """Why all was compared with live data again; null if somebody vouched for the plan."""
    unplanned: int
    """Snapshots that the store's own library took out of history beyond the plan; they stay."""
    spared: int
    """Snapshots of the plan that the store's own library left in the history."""
    objects: int
    """Objects that were deleted, or moved to quarantine."""
    bytes: int
    failed: int
    """Objects that could not be removed; apply again."""
    missing: int
    """Objects that were not there any more."""
    dropped: int
    """Objects of the plan that are referenced again, or were removed already."""
    condemned: int
    """Snapshots that were removed."""
    collected: int
    """Those of them of which nothing is left."""
    reparented: int
    """Snapshots that got other parents."""
    released: int
    """Snapshots that no branch or tag reaches any more because of that."""
    deleted_refs: Sequence[str]
    """Branches and tags that were deleted with their expired snapshots."""
    exclude: Sequence[str]
    """The globs of --exclude."""
    excluded: int
    """Objects of the plan that --exclude left out."""
    excluded_bytes: int
    excluded_list: str
    """The folder with the list of them; empty if there is none."""


class ApplyDocument(AppliedDocument):
    """What an apply did."""

    run: Id
    plan: str
    store: str
    already_applied: bool
    """Whether an earlier apply of the plan did all of this, and this apply nothing."""
    finished_at: datetime | None
    """When that earlier apply finished; null if there was none, or if it is not recorded."""

"""The nouns of JSON answers, as types. ``scripts/schemas.py`` makes the published schemas of them.

Fields are checked where a document is made, and cost nothing when a command runs. The docstring of
a class or of a field is its description in the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from reclaim.model import RefKind


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a text, in the annotation of a type; a schema has it as a pattern."""

    pattern: str

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


Id = Annotated[str, Form("^[0-9a-f]{32}$")]
"""The id of a commit, a run or a repository."""

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
    kind: RefKind
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


class TallyDocument(TypedDict):
    """A number of objects, and their bytes."""

    objects: int
    bytes: int


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

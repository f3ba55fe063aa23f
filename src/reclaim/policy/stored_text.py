"""Text with rules as stored with a repository, with a version and a checksum.

Stored text is never guessed. An unknown version or a damaged text is an error: a run without these
rules could act against the user's intent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import instant_text


@dataclass(frozen=True, slots=True)
class StoredText:
    """Text, and by whom and when it was stored."""

    text: str
    set_at: datetime
    set_by: str


@dataclass(frozen=True, slots=True)
class TextKind:
    """Kind of text: its name, supported version, and how to set it again."""

    noun: str
    """As in ``the policy``."""
    field: str
    """Name of the text in the document."""
    version: int
    """Incremented whenever a text can contain rules unknown to older versions of Reclaim."""
    set_again: str

    def encode(self, stored: StoredText) -> str:
        """Return the document to store."""
        return json.dumps(
            {
                "format": self.version,
                self.field: stored.text,
                "sha256": _hash(stored.text),
                "set_at": instant_text(stored.set_at),
                "set_by": stored.set_by,
            }
        )

    def decode(self, document: str, *, repository: str) -> StoredText:
        """Return the text in a stored document; fail on any other document."""
        try:
            body = json.loads(document)
        except (ValueError, RecursionError) as error:
            raise self.damaged(repository, "it is not JSON") from error
        if not isinstance(body, dict) or not isinstance(body.get("format"), int):
            raise self.damaged(repository, "it has no version")
        if body["format"] != self.version:
            raise UnknownVersion(
                f"the {self.noun} stored with {repository} has version {body['format']}; this "
                f"Reclaim knows version {self.version}",
                hint=f"upgrade Reclaim, or {self.set_again}",
            )
        text = self._text(body, self.field, repository)
        set_by = self._text(body, "set_by", repository)
        if body.get("sha256") != _hash(text):
            raise self.damaged(repository, "its text does not match the checksum")
        try:
            set_at = datetime.fromisoformat(self._text(body, "set_at", repository))
        except ValueError as error:
            raise self.damaged(repository, error) from error
        return StoredText(text, set_at, set_by)

    def damaged(self, repository: str, why: object) -> Corrupt:
        """Error for a document that cannot be trusted."""
        return Corrupt(
            f"the {self.noun} stored with {repository} is damaged: {why}", hint=self.set_again
        )

    def unreadable(self, repository: str, why: object) -> Corrupt:
        """Error for an intact text that this version cannot read."""
        return Corrupt(
            f"the {self.noun} stored with {repository} cannot be read: {why}", hint=self.set_again
        )

    def _text(self, body: dict[str, Any], name: str, repository: str) -> str:
        value = body.get(name)
        if not isinstance(value, str):
            raise self.damaged(repository, f"{name} is not a text")
        return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Listing of branches and tags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reclaim.cli.views.describe import instant, ref_document
from reclaim.cli.views.documents import RefsDocument
from reclaim.cli.views.output import Block, Table
from reclaim.ids import SHORT

if TYPE_CHECKING:
    from reclaim.catalog import NamedRef


@dataclass(frozen=True, slots=True)
class Refs:
    """Answer that lists refs."""

    refs: Sequence[NamedRef]

    def document(self) -> RefsDocument:
        return {"refs": [ref_document(ref) for ref in self.refs]}

    def view(self) -> Iterable[Block]:
        rows = (
            (
                ref.kind.value,
                ref.commit[:SHORT],
                instant(ref.created_at),
                ref.name,
                "default" if ref.default else "",
            )
            for ref in self.refs
        )
        return [Table(("kind", "commit", "created (UTC)", "name", ""), rows)]

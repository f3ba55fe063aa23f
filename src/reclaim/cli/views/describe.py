"""Entries, commits and refs in documents and tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from reclaim.cli.views.documents import CommitDocument, EntryDocument, NamedKind, RefDocument

if TYPE_CHECKING:
    from reclaim.catalog import Commit, Entry, NamedRef
    from reclaim.history import Holder
    from reclaim.run_record import EditCounts

HOLDERS_SHOWN = 3
"""Number of holders of expired snapshots shown by name."""


def entry_document(entry: Entry) -> EntryDocument:
    return {
        "path": entry.path,
        "size": entry.size,
        "created_at": entry.created_at,
        "checksum": entry.checksum,
        "content_type": entry.content_type,
        "metadata": dict(entry.metadata),
        "address": entry.address,
    }


def commit_document(commit: Commit) -> CommitDocument:
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "written_at": commit.written_at,
        "committer": commit.committer,
        "message": commit.message,
        "metadata": dict(commit.metadata),
        "marked": commit.marked,
    }


def ref_document(ref: NamedRef) -> RefDocument:
    return {
        "name": ref.name,
        "kind": cast(NamedKind, ref.kind.value),
        "commit": ref.commit,
        "created_at": ref.created_at,
        "default": ref.default,
    }


def instant(when: datetime) -> str:
    """Format an instant for people, in UTC."""
    return f"{when:%Y-%m-%d %H:%M:%S}"


def percent(part: int, whole: int) -> str:
    """Format a percentage. Small and large parts are not rounded to 0% or 100%."""
    share = part / whole if whole else 0.0
    if 0 < share < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < share < 1 else f"{share:.0%}"


def objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count} objects"


def commits(count: int) -> str:
    return snapshots(count, "commit")


def snapshots(count: int, noun: str) -> str:
    """Format a number of snapshots, with the noun of their store."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def expired(count: int, held_by: Sequence[Holder], noun: str) -> str:
    """Describe the number of expired snapshots and their largest holders."""
    lose = "loses its rule" if count == 1 else "lose their rule"
    sentence = f"{snapshots(count, noun)} {lose}"
    if not held_by:
        return f"{sentence}."
    held_count = sum(holder.snapshots for holder in held_by)
    names = [_holder(holder, noun) for holder in held_by[:HOLDERS_SHOWN]]
    if (more := len(held_by) - HOLDERS_SHOWN) > 0:
        names.append(f"{more} more {'ref' if more == 1 else 'refs'}")
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    stay, them = ("stays", "it") if held_count == 1 else ("stay", "them")
    hold = "holds" if len(held_by) == 1 else "hold"
    return f"{sentence}; {held_count} of them {stay} because {listed} {hold} {them}."


def _holder(holder: Holder, noun: str) -> str:
    until = "" if holder.until is None else f" until {instant(holder.until)} UTC"
    kind = holder.kind if holder.until is None else f"the {holder.kind} of run"
    return f"{kind} {holder.name} ({snapshots(holder.snapshots, noun)}{until})"


def history_edit(edit: EditCounts, noun: str) -> str:
    """Describe a finished edit of the history; "" without an edit."""
    if not edit:
        return ""
    changes = []
    if edit.released:
        changes.append(f"removed {snapshots(edit.released, noun)} from it")
    if edit.reparented:
        changes.append(f"re-linked {snapshots(edit.reparented, noun)}")
    if edit.deleted_refs:
        changes.append(f"deleted refs: {' '.join(edit.deleted_refs)}")
    return f"edited the history ({', '.join(changes)})"


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]

"""Notes: steps a task is about to take, or has just taken, written before its next step.

A journal is written at the end of a wave, and lost with a task that dies. The note of a page exists
before any step that would be unintelligible without it. Its name has the number of its rows and its
hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.deleting import JOURNAL
from reclaim.engine.tasks.parts import Part
from reclaim.storage import Storage, hashed_files

COVERING = "covering"
"""An object is about to be covered by a delete marker; also the folder of such notes."""
RETURNED = "returned"
"""A copy of an object is back at its address, and the quarantined object is about to be deleted;
also the folder of such notes. After its first identity an object has those of its copies."""


@dataclass(frozen=True, slots=True)
class Noted:
    """An object in a note, by its address in the store."""

    address: str
    size: int
    outcome: str
    identity: str


def write_note(storage: Storage, folder: str, rows: Sequence[Noted]) -> None:
    """Write a note into a folder, unless it is empty."""
    if not rows:
        return
    objects = [
        {
            "address": row.address,
            "size": row.size,
            "kind": "",
            "reason": "",
            "outcome": row.outcome,
            "identity": row.identity,
        }
        for row in rows
    ]
    table = pa.Table.from_pylist(objects, schema=JOURNAL)
    address, _ = hashed_files.write(storage, f"{folder}{len(rows)}", table)
    storage.flush([address])


def folder_of(note: Part) -> str:
    """Return the name of a note's folder, which is the kind of the note."""
    return note.address.split("/")[-2]


def find_notes(storage: Storage, below: str, name: str) -> list[Part]:
    """Return the notes in folders with a name, at any depth below a folder."""
    notes = []
    for stored in storage.list(below):
        *_, folder, file = ("", *stored.address.split("/"))
        rows, _, digest = file.removesuffix(".parquet").partition("-")
        if folder == name and rows.isdigit() and digest:
            notes.append(Part(stored.address, int(rows), digest))
    return notes

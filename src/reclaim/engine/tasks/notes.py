"""Notes: what a task is about to do, or has just done, written down before its next step.

A journal is written when a wave ends, and is lost with a task that dies. A note of a page is there
before the step that could not be understood without it. Its name has its rows and its hash.
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
"""A copy of an object is at its old place again, and the object itself is about to go; also the
folder of such notes. After its first identity an object has those of its copies."""


@dataclass(frozen=True, slots=True)
class Noted:
    """One object of a note, by the address that it has in the store."""

    address: str
    size: int
    outcome: str
    identity: str


def write_note(storage: Storage, folder: str, rows: Sequence[Noted]) -> None:
    """Write a note into a folder, unless there is nothing to note."""
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
    """The name of the folder of a note, which tells what it is about."""
    return note.address.split("/")[-2]


def find_notes(storage: Storage, below: str, name: str) -> list[Part]:
    """The notes in folders of a name, however deep below a folder."""
    notes = []
    for stored in storage.list(below):
        *_, folder, file = ("", *stored.address.split("/"))
        rows, _, digest = file.removesuffix(".parquet").partition("-")
        if folder == name and rows.isdigit() and digest:
            notes.append(Part(stored.address, int(rows), digest))
    return notes

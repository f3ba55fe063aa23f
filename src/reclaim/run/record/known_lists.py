"""The lists of a run's applies, verified by the hashes in the run record.

Lists are stored in the folder of the plan, where anybody with write access can change them. The run
record is in the store. So a list is trusted only if the record has its hash; a recorded list that
is missing or modified is *lost*.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reclaim.engine.tasks.deleting import Outcome
from reclaim.engine.tasks.parts import Part, Place
from reclaim.errors import Corrupt, NotFound
from reclaim.operators import current_operator
from reclaim.run_record import RunRecord
from reclaim.storage import Storage

ABSENT = ""
"""Placeholder for a hash: the list need not exist yet."""
OUTCOMES, INTENTIONS = "journal.json", "intended.json"

Hashes = dict[str, list[str]]
"""Possible hashes by list name, below the folder of applies.

Two hashes while a list is being overwritten. No hash if a later apply gave the list up.
"""
Lists = Mapping[str, tuple[str, ...]]
"""The same, in a run record."""
Rows = list[tuple[Part, Outcome]]

log = logging.getLogger(__name__)


def known_lists(run: RunRecord | None) -> Hashes | None:
    """Lists in the record of a run; None for an older version, which recorded no lists."""
    if run is None:
        return {}
    if run.lists is None:
        return None
    return {name: list(hashes) for name, hashes in run.lists.items()}


@dataclass(slots=True)
class ListsRead:
    """Trusted lists of a run with their rows, and the names of lost lists."""

    known: Hashes = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def of(self, kind: str) -> Rows:
        """Rows of all lists of a kind."""
        return [row for name, rows in self.rows.items() if name.endswith(kind) for row in rows]

    def give_up(self, name: str) -> None:
        """Stop trusting a list permanently. Its facts have to be determined again."""
        self.rows.pop(name, None)
        self.known[name] = []


def read_lists(storage: Storage, applies: Place, known: Hashes | None) -> ListsRead:
    """Read the lists in a record; all existing lists for a record of an older version."""
    if known is None:
        return _read_all(storage, applies)
    read = ListsRead(dict(known))
    for name, hashes in known.items():
        body = _body(storage, applies.at(name))
        digest = ABSENT if body is None else hash_of(body)
        if digest not in hashes:
            # A list without hashes was given up.
            if hashes:
                log.warning("%s is not the list that its run recorded", applies.at(name))
                read.lost.append(name)
        elif body is not None:
            read.rows[name] = decode(body, applies.at(name))
    return read


def _read_all(storage: Storage, applies: Place) -> ListsRead:
    read = ListsRead()
    for stored in storage.list(applies.prefix.rstrip("/")):
        if stored.address.endswith((f"/{OUTCOMES}", f"/{INTENTIONS}")):
            name = stored.address.removeprefix(applies.prefix)
            body = storage.get(stored.address)
            read.rows[name] = decode(body, stored.address)
            read.known[name] = [hash_of(body)]
    return read


def _body(storage: Storage, address: str) -> bytes | None:
    try:
        return storage.get(address)
    except NotFound:
        return None


def hash_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def encode(rows: Sequence[tuple[Part, Outcome]]) -> bytes:
    """Encode a list, with its operator."""
    files = [
        {
            "kind": part.group,
            "address": part.address,
            "rows": part.rows,
            "sha256": part.sha256,
            "outcome": outcome.encode(),
        }
        for part, outcome in rows
    ]
    return json.dumps({"operator": current_operator().document(), "files": files}).encode()


def decode(body: bytes, address: str) -> Rows:
    try:
        return list(_decoded(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Corrupt(
            f"{address} was changed after a run wrote it, or is not its list",
            hint="restore it from a backup",
        ) from error


def _decoded(body: bytes) -> Iterator[tuple[Part, Outcome]]:
    document = json.loads(body)
    for row in document["files"] if isinstance(document, dict) else document:
        part = Part(row["address"], row["rows"], row["sha256"], row["kind"])
        yield part, Outcome.decode(row.get("outcome", ()))

"""Verification of the bytes of live objects against their SHA-256.

Objects are streamed through this process, a few at a time. Memory is independent of their sizes and
number, except for the set of addresses already read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from reclaim.catalog.content import checksums
from reclaim.errors import Corrupt, NotFound
from reclaim.storage import Storage
from reclaim.stores.findings import Advance

if TYPE_CHECKING:
    from reclaim.stores.catalog.store import CatalogStore

SUBMITTED = 256
"""Number of objects queued for threads at a time."""
NAMED = 20


@dataclass(frozen=True, slots=True)
class Expected:
    """A live object as described by its entry."""

    path: str
    address: str
    size: int
    checksum: str


@dataclass(slots=True)
class Verified:
    """Result of a verification. Only the first damaged objects are named."""

    compared: int = 0
    without_checksum: int = 0
    gone: int = 0
    expired: int = 0
    """Deleted by lifecycle rules."""
    damaged: int = 0
    names: list[str] = field(default_factory=list)


def expected_objects(
    store: CatalogStore, containers: Iterable[dict[str, Any]]
) -> Iterator[Expected]:
    """Each object named by live ranges or staged entries, without repetition, if stored in the
    repository.
    """
    rows = chain.from_iterable(
        store.format.described(store.storage, container).to_pylist() for container in containers
    )
    seen: set[str] = set()
    # Read first: a transaction must not stay open while bytes are read.
    staged = list(store.staged())
    for row in chain(rows, staged):
        if row["address"] not in seen:
            seen.add(row["address"])
            yield Expected(row["path"], row["address"], row["size"], row["checksum"])


def verify(
    storage: Storage,
    objects: Iterable[Expected],
    advance: Advance,
    find_expired: Callable[[Collection[str]], Collection[str]],
) -> Verified:
    """Read and compare every object. Objects deleted in the meantime are counted, not reported as
    an error.

    Objects deleted by lifecycle rules, as returned by ``find_expired``, are skipped.
    """
    verified = Verified()
    with ThreadPoolExecutor(max(2, storage.at_once)) as pool:
        waiting = iter(objects)
        while asked := list(islice(waiting, SUBMITTED)):
            expired = find_expired([expected.address for expected in asked])
            batch = [expected for expected in asked if expected.address not in expired]
            verified.expired += len(asked) - len(batch)
            outcomes = pool.map(lambda expected: _outcome(storage, expected), batch)
            for expected, outcome in zip(batch, outcomes, strict=True):
                advance(expected.size)
                if outcome is NotFound:
                    verified.gone += 1
                elif outcome is Corrupt:
                    verified.damaged += 1
                    if len(verified.names) < NAMED:
                        verified.names.append(f"{expected.path} ({expected.address})")
                elif checksums.is_known(expected.checksum):
                    verified.compared += 1
                else:
                    verified.without_checksum += 1
    return verified


def _outcome(storage: Storage, expected: Expected) -> type[Corrupt] | type[NotFound] | None:
    try:
        for _ in checksums.compared(
            storage.stream(expected.address),
            path=expected.path,
            address=expected.address,
            size=expected.size,
            checksum=expected.checksum,
        ):
            pass
    except NotFound:
        return NotFound
    except Corrupt:
        return Corrupt
    return None

"""Removal of condemned ledger rows whose objects are already gone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Connection, delete, select, tuple_

from reclaim.catalog.database.schema import LedgerState, ledger, protected_paths
from reclaim.catalog.database.sets import among
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.reaping.backlog import promised_until
from reclaim.clock import MICROSECOND, Clock, to_micros
from reclaim.errors import NotFound
from reclaim.safety import SAFETY
from reclaim.storage import Storage

BATCH = 1_000


def remove(
    database: Database, storage: Storage, clock: Clock, repo_uid: str, *, at_most: int | None = None
) -> int:
    """Remove the rows of condemned objects that no longer exist; return their number.

    Checks at most ``at_most`` rows, oldest first; later calls check more. Rows of objects possibly
    quarantined by an undoable run stay, because they hold the paths.

    For a day the rows explain the deletion to readers. A condemned address has no references and is
    never reused, so its row is not needed once the bytes are gone.
    """
    removed = 0
    last: tuple[int, str] | None = None
    looked = 0
    while (at_most is None or looked < at_most) and (
        page := _page(database, clock, repo_uid, last)
    ):
        last = page[-1]
        looked += len(page)
        if gone := _missing(storage, [address for _, address in page]):
            removed += _remove(database, gone)
    return removed


def _page(
    database: Database, clock: Clock, repo_uid: str, last: tuple[int, str] | None
) -> Sequence[tuple[int, str]]:
    query = select(ledger.c.condemned_at, ledger.c.address).where(
        ledger.c.repo_uid == repo_uid,
        ledger.c.state == LedgerState.CONDEMNED,
        ledger.c.run_id.is_(None),
    )
    with database.read() as connection:
        now = to_micros(database.now(connection, clock))
        query = query.where(
            ledger.c.condemned_at < now - SAFETY.objects // MICROSECOND,
            ledger.c.created_at > promised_until(connection, repo_uid),
        )
        if last is not None:
            query = query.where(tuple_(ledger.c.condemned_at, ledger.c.address) > last)
        ordered = query.order_by(ledger.c.condemned_at, ledger.c.address).limit(BATCH)
        return [(at, address) for at, address in connection.execute(ordered)]


def _missing(storage: Storage, addresses: Sequence[str]) -> Sequence[str]:
    """Return the addresses without an object."""

    def look(address: str) -> bool:
        try:
            storage.head(address)
        except NotFound:
            return False
        return True

    with ThreadPoolExecutor(storage.at_once) as pool:
        checked = zip(addresses, pool.map(look, addresses), strict=True)
        return [address for address, exists in checked if not exists]


def _remove(database: Database, gone: Sequence[str]) -> int:
    def work(connection: Connection) -> int:
        noted = among(connection, protected_paths.c.address, gone)
        connection.execute(delete(protected_paths).where(noted))
        return connection.execute(
            delete(ledger).where(
                among(connection, ledger.c.address, gone),
                ledger.c.state == LedgerState.CONDEMNED,
                ledger.c.run_id.is_(None),
            )
        ).rowcount

    return database.transact(work)

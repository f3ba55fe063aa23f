"""Claims as seen by readers of entries and by writers of references.

A lifecycle run *claims* addresses referenced by live commits before deleting their bytes. The claim
is provisional at first, while the run may still find an address needed; once promoted, the
addresses are gone for everybody. ``collection.condemn.claimed_addresses`` makes and promotes
claims.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, Select, select

from reclaim.catalog.database.schema import ClaimState, claimed_addresses, claims
from reclaim.catalog.database.sets import among
from reclaim.errors import Conflict, Gone


class ExpiredBy(NamedTuple):
    """Run that deleted an object's bytes, and its rules."""

    run: str
    rule: str


def check_unclaimed(connection: Connection, address: str) -> None:
    """Refuse another reference to bytes claimed by a run.

    The caller must share the reference lock (``reference_lock``), so either the claim is visible
    here or the run sees the reference.
    """
    query = _claimed(ClaimState.PROVISIONAL, ClaimState.PROMOTED)
    row = connection.execute(query.where(claimed_addresses.c.address == address)).first()
    if row is None:
        return
    if row.state == ClaimState.PROMOTED:
        raise gone(address, ExpiredBy(row.run_id, row.rule))
    raise Conflict(
        f"{address} is claimed by lifecycle run {row.run_id}, which may delete it ({row.rule})",
        hint="try again when that run has ended; if it died, `reclaim clean` releases its claims",
        run=row.run_id,
        rule=row.rule,
    )


def taken(connection: Connection, path: str, address: str) -> Gone | None:
    """Reason why an entry's bytes are missing, if a rule deleted them."""
    expired = find_expired(connection, [address]).get(address)
    return None if expired is None else gone(path, expired)


def find_expired(connection: Connection, addresses: Collection[str]) -> Mapping[str, ExpiredBy]:
    """Return the addresses with bytes deleted, or being deleted, by rules."""
    if not addresses:
        return {}
    query = _claimed(ClaimState.PROMOTED).where(
        among(connection, claimed_addresses.c.address, addresses)
    )
    return {row.address: ExpiredBy(row.run_id, row.rule) for row in connection.execute(query)}


def gone(subject: str, expired: ExpiredBy) -> Gone:
    """Error for an object whose bytes a rule deleted."""
    return Gone(
        f"{subject} expired: lifecycle run {expired.run} deleted its data ({expired.rule})",
        hint=f"if that run moved it to quarantine, restore it with `reclaim undo {expired.run}` "
        "until it is purged",
        run=expired.run,
        rule=expired.rule,
    )


def _claimed(*states: ClaimState) -> Select[str, str, str, str]:
    return (
        select(
            claimed_addresses.c.address,
            claimed_addresses.c.run_id,
            claimed_addresses.c.rule,
            claims.c.state,
        )
        .join(claims, claims.c.run_id == claimed_addresses.c.run_id)
        .where(claims.c.state.in_(states))
    )

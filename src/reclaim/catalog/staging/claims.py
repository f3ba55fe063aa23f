"""Claims as those see them who read entries or refer to their bytes.

A lifecycle run *claims* addresses that live commits refer to before it takes their bytes: first
provisionally, and it may still find one needed; once the claim is promoted they are gone for
everybody. How claims are made and promoted is in ``collection.claimed_addresses``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, Select, select

from reclaim.catalog.database.schema import ClaimState, claimed_addresses, claims
from reclaim.catalog.database.sets import among
from reclaim.errors import Conflict, Gone


class ExpiredBy(NamedTuple):
    """The run that took an object's bytes, and the rules that it took them by."""

    run: str
    rule: str


def check_unclaimed(connection: Connection, address: str) -> None:
    """Refuse another reference to bytes that a run takes, or may be about to take.

    Whoever calls this shares the lock of references (``reference_lock``). So the claim that a run
    relies on is either seen here, or the run sees the reference.
    """
    query = _claimed(ClaimState.PROVISIONAL, ClaimState.PROMOTED)
    row = connection.execute(query.where(claimed_addresses.c.address == address)).first()
    if row is None:
        return
    if row.state == ClaimState.PROMOTED:
        raise gone(address, ExpiredBy(row.run_id, row.rule))
    raise Conflict(
        f"{address} is being looked at by the lifecycle run {row.run_id}, which may take it "
        f"({row.rule})",
        hint="try again when that run has ended; if it died, `reclaim clean` takes back what it "
        "claimed",
        run=row.run_id,
        rule=row.rule,
    )


def taken(connection: Connection, path: str, address: str) -> Gone | None:
    """Why an entry's bytes are not there, if a rule took them."""
    expired = find_expired(connection, [address]).get(address)
    return None if expired is None else gone(path, expired)


def find_expired(connection: Connection, addresses: Collection[str]) -> Mapping[str, ExpiredBy]:
    """Those of the addresses whose bytes rules took, or are taking."""
    if not addresses:
        return {}
    query = _claimed(ClaimState.PROMOTED).where(
        among(connection, claimed_addresses.c.address, addresses)
    )
    return {row.address: ExpiredBy(row.run_id, row.rule) for row in connection.execute(query)}


def gone(what: str, expired: ExpiredBy) -> Gone:
    """The error for something whose bytes a rule took."""
    return Gone(
        f"{what} expired: lifecycle run {expired.run} took its data ({expired.rule})",
        hint=f"if that run moved it to quarantine, bring it back with `reclaim undo {expired.run}` "
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

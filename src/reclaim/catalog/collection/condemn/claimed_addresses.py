"""Claims of a run to addresses that live commits refer to, from the first to the end.

Why an address that anything unmatched refers to is never taken, whoever writes meanwhile:

1. *Claim.* The run enters each address that it would take, provisionally and in small batches.
   Whoever is about to stage another entry for the same bytes looks for a claim, and is refused.
2. *Close.* It excludes, for a moment, all who make references (``reference_lock``). Whoever began
   before that has ended: its entry or commit is there to be read. Whoever begins later sees every
   claim. So from here on no staged entry for a claimed address can appear.
3. *Confirm.* It reads all refs, leases, staged entries and upload tokens, in one snapshot, and
   drops each claim to an address that one of them needs.
4. *Promote.* It excludes them once more, and compares: no ref and no lease may name a commit that
   it did not name in that read. Then one row changes, and all claims are final at once. If
   something is new, nothing changes, and the run confirms again.

A commit that lands later carries on what its parents have, which was judged, and what was staged,
which is not claimed. A ref that is made later reaches entries that read as gone, like any other.

Until the promotion everything can be taken back, by one change of the same row. Afterwards only an
undo takes it back, which has brought the bytes back before; and of a run that nobody will finish,
what is found where it belongs (``release_at_home``). What is swept is read from here: an
address without a claim, or of a claim that is not promoted, cannot be in the list.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa
from sqlalchemy import Connection, delete, exists, func, insert, select, update

from reclaim.catalog import addresses as places
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.collection.roots.observing import valid_leases
from reclaim.catalog.database.schema import (
    ClaimState,
    LedgerState,
    TokenState,
    UploadState,
    branches,
    claimed_addresses,
    claims,
    ledger,
    lifecycle_policies,
    staged_entries,
    staging_tokens,
    tags,
    upload_tokens,
)
from reclaim.catalog.database.sets import among, batches
from reclaim.catalog.settings import read_settings
from reclaim.catalog.staging import reference_lock
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.errors import Conflict, OwnedAddress, PlanRefused
from reclaim.model import Lease, Ref, RefKind
from reclaim.storage import Storage, hashed_files

BATCH = 1_000
"""Addresses in one transaction: on SQLite all other writers wait for it."""
PART = 50_000
"""Addresses in a file."""

CLAIMED = pa.schema([pa.field("address", pa.string(), nullable=False)])


def claim(workspace: Workspace, lock: RepositoryLock, going: Iterable[tuple[str, str]]) -> int:
    """Claim addresses provisionally, each with its rule; returns how many are this run's.

    One that another claim has, or that the ledger has condemned, is left out: its bytes are taken,
    or are about to be.
    """
    inside = f"{places.repository(workspace.repo_uid)}branches/"
    workspace.database.transact(lambda connection: _open(connection, workspace, lock))

    def work(connection: Connection, batch: list[tuple[str, str]]) -> int:
        for address, _ in batch:
            if not address.startswith(inside):
                raise OwnedAddress(
                    f"{address!r} lies outside {inside}; no rule takes anything there",
                    hint="plan it again",
                )
        lock.assure(connection)
        _check_provisional(connection, lock.run_id)
        condemned = _condemned(connection, [address for address, _ in batch])
        _insert(connection, lock.run_id, [row for row in batch if row[0] not in condemned])
        return len(batch)

    workspace.database.transact_each(batches(going, BATCH), work)
    return count(workspace, lock.run_id)


def _open(connection: Connection, workspace: Workspace, lock: RepositoryLock) -> None:
    lock.assure(connection)
    state = _state(connection, lock.run_id)
    if state is None:
        connection.execute(
            insert(claims).values(
                run_id=lock.run_id,
                repo_uid=workspace.repo_uid,
                state=ClaimState.PROVISIONAL,
                made_at=workspace.now(),
            )
        )


def _insert(connection: Connection, run_id: str, rows: Sequence[tuple[str, str]]) -> None:
    # As one value, in the drivers' own words: to bind each would take the time.
    body = json.dumps(rows, ensure_ascii=False)
    names = "claimed_addresses (address, rule, run_id)"
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            f"INSERT OR IGNORE INTO {names} SELECT json_extract(value, '$[0]'), "
            "json_extract(value, '$[1]'), ? FROM json_each(?)",
            (run_id, body),
        )
    else:
        connection.exec_driver_sql(
            f"INSERT INTO {names} SELECT value ->> 0, value ->> 1, %s "
            "FROM json_array_elements(%s::json) ON CONFLICT DO NOTHING",
            (run_id, body),
        )


def _condemned(connection: Connection, addresses: Collection[str]) -> set[str]:
    query = select(ledger.c.address).where(
        among(connection, ledger.c.address, addresses), ledger.c.state != LedgerState.LIVE
    )
    return set(connection.execute(query).scalars())


def close(workspace: Workspace, lock: RepositoryLock) -> None:
    """Wait for all who may be making a reference without having seen the claims."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        reference_lock.exclude(connection, workspace.repo_uid)

    workspace.database.transact(work)


def drop(workspace: Workspace, lock: RepositoryLock, needed: Iterable[str]) -> int:
    """Drop the run's claims to some addresses, which may be referred to again; returns how many."""

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        _check_provisional(connection, lock.run_id)
        return _remove(connection, lock.run_id, batch)

    return workspace.database.transact_each(batches(needed, BATCH), work)


def _remove(connection: Connection, run_id: str, addresses: Collection[str]) -> int:
    mine = claimed_addresses.c.run_id == run_id
    several = among(connection, claimed_addresses.c.address, addresses)
    return connection.execute(delete(claimed_addresses).where(mine, several)).rowcount


def drop_staged(workspace: Workspace, lock: RepositoryLock) -> int:
    """Drop the run's claims to addresses that staged entries or upload tokens have.

    Once claims are closed none can be added, so that this holds for good.
    """
    staged = (
        select(staged_entries.c.address)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(
            staging_tokens.c.repo_uid == workspace.repo_uid,
            staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),
            staged_entries.c.owned,
        )
    )
    pending = select(upload_tokens.c.address).where(
        upload_tokens.c.repo_uid == workspace.repo_uid,
        upload_tokens.c.state == UploadState.PENDING,
    )
    needed: list[str] = []
    with workspace.database.read() as connection:
        for query in (staged, pending):
            mine = select(claimed_addresses.c.address).where(
                claimed_addresses.c.run_id == lock.run_id, claimed_addresses.c.address.in_(query)
            )
            needed += connection.execute(mine).scalars()
    return drop(workspace, lock, needed)


def promote(
    workspace: Workspace,
    lock: RepositoryLock,
    *,
    refs: Collection[Ref],
    leases: Collection[Lease],
    rules: str | None,
    protect: Collection[str] = (),
) -> bool:
    """Make all claims of a run final, if nothing names a commit that did not in the last read.

    False, with nothing done, if something does. ``rules`` is the document that the plan was made
    by; a plan by other rules is refused. ``protect`` are the globs of the last read: one more, and
    nothing is done either.
    """

    def work(connection: Connection) -> bool:
        lock.assure(connection)
        reference_lock.exclude(connection, workspace.repo_uid)
        if _is_more_named(connection, workspace, refs, leases):
            return False
        if not frozenset(read_settings(connection, workspace.repo_uid).protect) <= {*protect}:
            return False
        _check_rules(connection, workspace.repo_uid, rules)
        _check_provisional(connection, lock.run_id)
        _set_state(connection, lock.run_id, ClaimState.PROMOTED)
        return True

    return workspace.database.transact(work)


def _is_more_named(
    connection: Connection,
    workspace: Workspace,
    refs: Collection[Ref],
    leases: Collection[Lease],
) -> bool:
    """Whether a branch, a tag or a lease names a commit that it did not name in a read.

    What is not there any more holds less, and makes no difference.
    """
    uid = workspace.repo_uid
    seen = {(ref.kind, ref.name, str(ref.snapshot)) for ref in refs}
    heads = select(branches.c.name, branches.c.head).where(branches.c.repo_uid == uid)
    named = {(RefKind.BRANCH, name, head) for name, head in connection.execute(heads)}
    tagged = select(tags.c.name, tags.c.commit_id).where(tags.c.repo_uid == uid)
    named |= {(RefKind.TAG, name, commit) for name, commit in connection.execute(tagged)}
    if not named <= seen:
        return True
    now = workspace.database.now(connection, workspace.clock)
    leased = {str(lease.snapshot) for lease in valid_leases(connection, uid, now)}
    return not leased <= {str(lease.snapshot) for lease in leases}


def _check_rules(connection: Connection, repo_uid: str, rules: str | None) -> None:
    # Whoever stores rules locks the same row.
    query = select(lifecycle_policies.c.document).where(lifecycle_policies.c.repo_uid == repo_uid)
    if connection.execute(query).scalar() != rules:
        raise PlanRefused(
            "the lifecycle rules were changed since the plan was made",
            hint="nothing was deleted; plan it again: reclaim plan REPO --lifecycle",
        )


def release_all(connection: Connection, repo_uid: str, *, besides: str) -> bool:
    """Take back every claim that is not promoted; returns whether there are void ones to remove.

    For the holder of the lock, to whom all of them are left over. Promoted claims of other runs
    than ``besides`` that took nothing go at once.
    """
    mine = claims.c.repo_uid == repo_uid
    connection.execute(
        update(claims)
        .where(mine, claims.c.state == ClaimState.PROVISIONAL)
        .values(state=ClaimState.RELEASED)
    )
    _remove_empty(connection, repo_uid, besides)
    void = select(claims.c.run_id).where(mine, claims.c.state == ClaimState.RELEASED)
    return connection.execute(void.limit(1)).first() is not None


def release_undone(connection: Connection, run_id: str) -> bool:
    """Let go of a run's claims, in the transaction in which its undo is finished; returns whether
    it had any. They are void from then on, and ``remove_released`` removes them."""
    return _set_state(connection, run_id, ClaimState.RELEASED)


def release_at_home(
    workspace: Workspace, lock: RepositoryLock, run_id: str, addresses: Iterable[str]
) -> int:
    """Let go of those addresses of a promoted claim whose bytes are where they belong; returns how
    many. For a run that nobody will finish: the others stay claimed."""

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        return _remove(connection, run_id, batch)

    return workspace.database.transact_each(batches(addresses, BATCH), work)


def remove_released(workspace: Workspace, lock: RepositoryLock) -> int:
    """Remove the rows of claims that are void; returns how many addresses they had."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == workspace.repo_uid, claims.c.state == ClaimState.RELEASED
    )
    with workspace.database.read() as connection:
        released = list(connection.execute(query).scalars())
    removed = 0
    for run_id in released:

        def work(connection: Connection, batch: list[str], run_id: str = run_id) -> int:
            lock.assure(connection)
            return _remove(connection, run_id, batch)

        pages = _pages(workspace, [ClaimState.RELEASED], [run_id])
        several = (batch for page in pages for batch in batches(page, BATCH))
        removed += workspace.database.transact_each(several, work)
        workspace.database.transact(partial(_end, lock=lock, run_id=run_id))
    return removed


def _end(connection: Connection, *, lock: RepositoryLock, run_id: str) -> None:
    """Remove a void claim of which no address is left."""
    lock.assure(connection)
    void = claims.c.state == ClaimState.RELEASED
    connection.execute(delete(claims).where(claims.c.run_id == run_id, void))


def is_any_left(connection: Connection, repo_uid: str) -> bool:
    """Whether there is a claim that is not promoted: of a run at work, or left by one that died."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == repo_uid, claims.c.state != ClaimState.PROMOTED
    )
    return connection.execute(query.limit(1)).first() is not None


def is_promoted(workspace: Workspace, run_id: str) -> bool:
    """Whether the claims of a run are final."""
    with workspace.database.read() as connection:
        return _state(connection, run_id) == ClaimState.PROMOTED


def promoted_runs(workspace: Workspace) -> Sequence[str]:
    """The runs whose claims are final."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == workspace.repo_uid, claims.c.state == ClaimState.PROMOTED
    )
    with workspace.database.read() as connection:
        return list(connection.execute(query.order_by(claims.c.run_id)).scalars())


def promoted_since(connection: Connection, repo_uid: str, start: datetime) -> Sequence[str]:
    """The runs that have promoted claims which they made since some time."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == repo_uid,
        claims.c.state == ClaimState.PROMOTED,
        claims.c.made_at >= to_micros(start),
        exists().where(claimed_addresses.c.run_id == claims.c.run_id),
    )
    return list(connection.execute(query.order_by(claims.c.made_at)).scalars())


def forget(workspace: Workspace, lock: RepositoryLock, addresses: Iterable[str]) -> int:
    """Remove addresses of other runs' claims, to which nothing refers any more; returns how many.

    A claim of which none is left goes when the next run begins.
    """

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        others = claimed_addresses.c.run_id != lock.run_id
        several = among(connection, claimed_addresses.c.address, batch)
        return connection.execute(delete(claimed_addresses).where(others, several)).rowcount

    return workspace.database.transact_each(batches(addresses, BATCH), work)


def _remove_empty(connection: Connection, repo_uid: str, besides: str) -> None:
    """Remove claims of other runs that took nothing, or of which all is forgotten."""
    left = exists().where(claimed_addresses.c.run_id == claims.c.run_id)
    connection.execute(
        delete(claims).where(
            claims.c.repo_uid == repo_uid,
            claims.c.state == ClaimState.PROMOTED,
            claims.c.run_id != besides,
            ~left,
        )
    )


def count(workspace: Workspace, run_id: str) -> int:
    """How many addresses a run has claimed."""
    query = select(func.count()).where(claimed_addresses.c.run_id == run_id)
    with workspace.database.read() as connection:
        return connection.execute(query).scalar_one()


def write_claimed(
    workspace: Workspace, run_id: str, destination: Storage, prefix: str
) -> Mapping[str, int]:
    """Write the addresses that a run has claimed to files; returns how many each of these has."""
    return _write(_pages(workspace, ClaimState, [run_id]), destination, prefix)


def write_expired(
    workspace: Workspace, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
) -> Mapping[str, int]:
    """The same for the addresses of all promoted claims: of one run alone, or of all but one."""
    promoted = [
        run_id for run_id in promoted_runs(workspace) if run_id != besides and of in ("", run_id)
    ]
    return _write(_pages(workspace, [ClaimState.PROMOTED], promoted), destination, prefix)


def _write(pages: Iterator[Sequence[str]], destination: Storage, prefix: str) -> Mapping[str, int]:
    files: dict[str, int] = {}
    for page in pages:
        table = pa.table([pa.array(page, pa.string())], schema=CLAIMED)
        file, _ = hashed_files.write(destination, f"{prefix}part-{len(files):05d}", table)
        files[file] = len(page)
    return files


def _pages(
    workspace: Workspace, states: Iterable[ClaimState], runs: Iterable[str]
) -> Iterator[Sequence[str]]:
    """Claimed addresses, in pages that are each read by themselves."""
    for run_id in runs:
        last = ""
        while True:
            query = (
                select(claimed_addresses.c.address)
                .join(claims, claims.c.run_id == claimed_addresses.c.run_id)
                .where(
                    claimed_addresses.c.run_id == run_id,
                    claimed_addresses.c.address > last,
                    claims.c.state.in_(tuple(states)),
                )
                .order_by(claimed_addresses.c.address)
                .limit(PART)
            )
            with workspace.database.read() as connection:
                page = list(connection.execute(query).scalars())
            if not page:
                break
            last = page[-1]
            yield page


def _state(connection: Connection, run_id: str) -> str | None:
    query = select(claims.c.state).where(claims.c.run_id == run_id)
    state: str | None = connection.execute(query).scalar()
    return state


def _check_provisional(connection: Connection, run_id: str) -> None:
    """Fail unless the run's claims are its own to decide on; nobody changes that meanwhile."""
    query = select(claims.c.state).where(claims.c.run_id == run_id)
    if connection.execute(query.with_for_update(read=True)).scalar() != ClaimState.PROVISIONAL:
        raise Conflict(
            f"the claims of run {run_id} were taken back, or are final already",
            hint="nothing was deleted; apply it again",
        )


def _set_state(connection: Connection, run_id: str, state: ClaimState) -> bool:
    mine = update(claims).where(claims.c.run_id == run_id)
    return bool(connection.execute(mine.values(state=state)).rowcount)

"""Claims of a run to addresses referenced by live commits.

Why an address with any unmatched reference is never deleted, despite concurrent writers:

1. *Claim.* The run enters each address to delete, provisionally and in small batches. Staging
   another entry for the same bytes checks for claims and is refused.
2. *Close.* The run briefly takes the reference lock exclusively (``reference_lock``). Writers that
   began earlier have ended: their entries and commits can be read. Writers that begin later see
   every claim. From here on no staged entry for a claimed address can appear.
3. *Confirm.* The run reads all refs, leases, staged entries and upload tokens in a single
   snapshot, and drops each claim to an address needed by any of them.
4. *Promote.* The run takes the lock again and compares: no ref and no lease may name a commit it
   did not name in this read. Then a single row changes and makes all claims final. If there is
   anything new, nothing changes and the run confirms again.

A commit landing later contains entries of its parents, which were judged, and staged entries, which
are not claimed. A ref created later reaches entries that read as gone, like any other ref.

Until promotion, everything can be reverted by a single change of the same row. Afterwards only an
undo releases claims, after restoring the bytes. For a run that will never be finished, addresses
still at their original location are released (``release_at_home``). The sweep reads its addresses
from here: an address without a promoted claim cannot be in the list.
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
"""Addresses per transaction: on SQLite all other writers wait for it."""
PART = 50_000
"""Addresses per file."""

CLAIMED = pa.schema([pa.field("address", pa.string(), nullable=False)])


def claim(workspace: Workspace, lock: RepositoryLock, going: Iterable[tuple[str, str]]) -> int:
    """Claim addresses provisionally, each with its rule; return the number claimed by this run.

    Addresses claimed by another run or condemned in the ledger are skipped: their bytes are
    deleted, or about to be.
    """
    inside = f"{places.repository(workspace.repo_uid)}branches/"
    workspace.database.transact(lambda connection: _open(connection, workspace, lock))

    def work(connection: Connection, batch: list[tuple[str, str]]) -> int:
        for address, _ in batch:
            if not address.startswith(inside):
                raise OwnedAddress(
                    f"{address!r} is outside {inside}; no rule deletes anything there",
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
    # A single JSON value in driver-level SQL: binding each value would be slow.
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
    """Wait for all writers that may be creating a reference without having seen the claims."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        reference_lock.exclude(connection, workspace.repo_uid)

    workspace.database.transact(work)


def drop(workspace: Workspace, lock: RepositoryLock, needed: Iterable[str]) -> int:
    """Drop the run's claims to addresses, so they can be referenced again; return their number."""

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        _check_provisional(connection, lock.run_id)
        return _remove(connection, lock.run_id, batch)

    return workspace.database.transact_each(batches(needed, BATCH), work)


def _remove(connection: Connection, run_id: str, addresses: Collection[str]) -> int:
    own_claims = claimed_addresses.c.run_id == run_id
    several = among(connection, claimed_addresses.c.address, addresses)
    return connection.execute(delete(claimed_addresses).where(own_claims, several)).rowcount


def drop_staged(workspace: Workspace, lock: RepositoryLock) -> int:
    """Drop the run's claims to addresses of staged entries or upload tokens.

    Once claims are closed no such reference can be added, so this stays true.
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
            claimed = select(claimed_addresses.c.address).where(
                claimed_addresses.c.run_id == lock.run_id, claimed_addresses.c.address.in_(query)
            )
            needed += connection.execute(claimed).scalars()
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
    """Make all claims of a run final if no new commit is named since the last read.

    Returns False and changes nothing otherwise. ``rules`` is the document used for the plan; a plan
    under other rules is refused. ``protect`` are the globs of the last read: if there are more,
    nothing is changed either.
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
    """Whether a branch, a tag or a lease names a commit it did not name in a read.

    Deleted names hold fewer commits and make no difference.
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
    # Storing rules locks the same row.
    query = select(lifecycle_policies.c.document).where(lifecycle_policies.c.repo_uid == repo_uid)
    if connection.execute(query).scalar() != rules:
        raise PlanRefused(
            "the lifecycle rules were changed since the plan was made",
            hint="nothing was deleted; plan it again: reclaim plan REPO --lifecycle",
        )


def release_all(connection: Connection, repo_uid: str, *, besides: str) -> bool:
    """Release every unpromoted claim; return whether void claims remain to be removed.

    Only for the holder of the lock, for which all unpromoted claims are leftovers. Empty promoted
    claims of runs other than ``besides`` are removed at once.
    """
    own_claims = claims.c.repo_uid == repo_uid
    connection.execute(
        update(claims)
        .where(own_claims, claims.c.state == ClaimState.PROVISIONAL)
        .values(state=ClaimState.RELEASED)
    )
    _remove_empty(connection, repo_uid, besides)
    void = select(claims.c.run_id).where(own_claims, claims.c.state == ClaimState.RELEASED)
    return connection.execute(void.limit(1)).first() is not None


def release_undone(connection: Connection, run_id: str) -> bool:
    """Release a run's claims, in the transaction completing its undo; return whether it had any.

    The claims are void afterwards; ``remove_released`` removes them.
    """
    return _set_state(connection, run_id, ClaimState.RELEASED)


def release_at_home(
    workspace: Workspace, lock: RepositoryLock, run_id: str, addresses: Iterable[str]
) -> int:
    """Release the addresses of a promoted claim with bytes at their original location.

    Returns their number. For a run that will never be finished: other addresses stay claimed.
    """

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        return _remove(connection, run_id, batch)

    return workspace.database.transact_each(batches(addresses, BATCH), work)


def remove_released(workspace: Workspace, lock: RepositoryLock) -> int:
    """Remove the rows of void claims; return the number of addresses."""
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
    """Remove a void claim without remaining addresses."""
    lock.assure(connection)
    void = claims.c.state == ClaimState.RELEASED
    connection.execute(delete(claims).where(claims.c.run_id == run_id, void))


def is_any_left(connection: Connection, repo_uid: str) -> bool:
    """Whether an unpromoted claim exists, of an active or a dead run."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == repo_uid, claims.c.state != ClaimState.PROMOTED
    )
    return connection.execute(query.limit(1)).first() is not None


def is_promoted(workspace: Workspace, run_id: str) -> bool:
    """Whether the claims of a run are final."""
    with workspace.database.read() as connection:
        return _state(connection, run_id) == ClaimState.PROMOTED


def promoted_runs(workspace: Workspace) -> Sequence[str]:
    """Runs with final claims."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == workspace.repo_uid, claims.c.state == ClaimState.PROMOTED
    )
    with workspace.database.read() as connection:
        return list(connection.execute(query.order_by(claims.c.run_id)).scalars())


def promoted_since(connection: Connection, repo_uid: str, start: datetime) -> Sequence[str]:
    """Runs with promoted claims made since a given time."""
    query = select(claims.c.run_id).where(
        claims.c.repo_uid == repo_uid,
        claims.c.state == ClaimState.PROMOTED,
        claims.c.made_at >= to_micros(start),
        exists().where(claimed_addresses.c.run_id == claims.c.run_id),
    )
    return list(connection.execute(query.order_by(claims.c.made_at)).scalars())


def forget(workspace: Workspace, lock: RepositoryLock, addresses: Iterable[str]) -> int:
    """Remove addresses without any reference from other runs' claims; return their number.

    An empty claim is removed when the next run begins.
    """

    def work(connection: Connection, batch: list[str]) -> int:
        lock.assure(connection)
        others = claimed_addresses.c.run_id != lock.run_id
        several = among(connection, claimed_addresses.c.address, batch)
        return connection.execute(delete(claimed_addresses).where(others, several)).rowcount

    return workspace.database.transact_each(batches(addresses, BATCH), work)


def _remove_empty(connection: Connection, repo_uid: str, besides: str) -> None:
    """Remove claims of other runs without any remaining address."""
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
    """Number of addresses claimed by a run."""
    query = select(func.count()).where(claimed_addresses.c.run_id == run_id)
    with workspace.database.read() as connection:
        return connection.execute(query).scalar_one()


def write_claimed(
    workspace: Workspace, run_id: str, destination: Storage, prefix: str
) -> Mapping[str, int]:
    """Write the addresses claimed by a run to files; return the number of addresses per file."""
    return _write(_pages(workspace, ClaimState, [run_id]), destination, prefix)


def write_expired(
    workspace: Workspace, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
) -> Mapping[str, int]:
    """Write the addresses of promoted claims, of a single run or of all but one.

    Returns the number of addresses per file.
    """
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
    """Yield claimed addresses in pages, each read separately."""
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
    """Fail unless the run's claims are still provisional; they are locked meanwhile."""
    query = select(claims.c.state).where(claims.c.run_id == run_id)
    if connection.execute(query.with_for_update(read=True)).scalar() != ClaimState.PROVISIONAL:
        raise Conflict(
            f"the claims of run {run_id} were released or are already final",
            hint="nothing was deleted; apply it again",
        )


def _set_state(connection: Connection, run_id: str, state: ClaimState) -> bool:
    statement = update(claims).where(claims.c.run_id == run_id)
    return bool(connection.execute(statement.values(state=state)).rowcount)

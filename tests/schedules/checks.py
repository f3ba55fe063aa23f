"""What must hold at the end of every schedule."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import timedelta
from hashlib import blake2b
from zlib import crc32

from reclaim.catalog import Repository
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.schema import (
    ClaimState,
    CommitState,
    LedgerState,
    TokenState,
    claimed_addresses,
    claims,
    ledger,
    staged_entries,
    staging_tokens,
)
from reclaim.catalog.staging.ledger import HOLDING
from reclaim.testing.scheduler import Trace, describe
from tests.catalog import raw
from tests.collect.world import World, addresses_of, commit_states
from tests.schedules.operations import MARGIN
from tests.schedules.past import Past
from tests.soak import SOAK

QUIET_IN = 1 if SOAK else 48
"""Of so many ends one is collected, to see that nothing is left; of named races more."""
UNFINISHED = {"late collect", "late uncommitted", "reap from a copy"}
"""Operations after which a writer may have lost its partition."""
QUIET_IN_RACES = 1 if SOAK else 12


class Checks:
    """Checks the end of a schedule. An end that was seen before needs no second look."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._ends: dict[bytes, str] = {}

    def check(self, trace: Trace, *, named: bool = False) -> str:
        """Fail with the schedule if something is lost or left; returns what the end shows."""
        assert "corrupt" not in trace.outcome, f"{trace}: what a run took is Gone, not damaged"
        key = blake2b(repr(self._past.state()).encode(), digest_size=16).digest()
        if key not in self._ends:
            # Who fails, dies or loses its partition leaves what only an offline run finds.
            everyone_done = not UNFINISHED & {*trace.names} and not any(
                isinstance(end, BaseException) for end in trace.results
            )
            chance = crc32(f"{trace.names} {describe(trace.schedule)}".encode())
            quiet = chance % (QUIET_IN_RACES if named else QUIET_IN) == 0
            try:
                self._ends[key] = self._check(everyone_done and (named or quiet), quiet)
            except Exception as error:
                steps = "\n".join(f"  {trace.names[s.task]}: {s.name}" for s in trace.steps)
                raise AssertionError(f"{trace}: {trace.outcome}\n{steps}\n{error!r}") from error
        return self._ends[key]

    def _check(self, whole: bool, quiet: bool) -> str:
        world = self._past.world
        repo = world.repo
        committed: set[str] = set()
        for commit in world.reached(repo):
            tree = repo._workspace.containers.tree(repo.commit(commit).metarange)
            committed |= {entry.address for entry in tree.entries() if self._read(entry)}
        shown = self._shown(repo)
        _check_condemned(repo, committed)
        repo.clean()
        _check_rows(repo)
        if whole:
            _check_forgotten(world)
        if quiet and not expired(repo):
            # What can be undone holds more than refs do.
            world.purge(timedelta(0))
            world.clock.advance(MARGIN)
            world.opened().reap()
            assert not _condemned(repo), "the reaper left something"
            world.quiet()
            _check_rows(repo)
        return shown

    def _shown(self, repo: Repository) -> str:
        """What users could see at the end, without ids that differ."""
        branches = {
            ref.name: {entry.path: self._read(entry) for entry in repo.at(ref.name).entries()}
            for ref in repo.branches()
        }
        heads = {}
        for ref in repo.branches():
            head = repo.commit(ref.commit)
            tree = repo._workspace.containers.tree(head.metarange)
            heads[ref.name] = (head.message, [entry.path for entry in tree.entries()])
        states = sorted(Counter(commit_states(repo).values()).items())
        condemned = _condemned(repo)
        gone = sorted(str(row.path) for row in raw.rows(repo, ledger) if row.address in condemned)
        return repr((sorted(branches.items()), heads, states, gone, len(repo.leases())))

    def _read(self, entry: Entry) -> bytes:
        """An entry's own bytes, straight from the folder."""
        place = self._past.objects / entry.address if entry.owned else self._past.known.outside
        if not place.exists() and entry.address in expired(self._past.world.repo):
            return b""
        data = place.read_bytes()
        method, _, checksum = entry.checksum.partition(":")
        assert len(data) == entry.size
        assert method != "sha256" or hashlib.sha256(data).hexdigest() == checksum
        return data


def expired(repo: Repository) -> set[str]:
    """Addresses that lifecycle rules took, or are taking."""
    final = {row.run_id for row in raw.rows(repo, claims) if row.state == ClaimState.PROMOTED}
    return {row.address for row in raw.rows(repo, claimed_addresses) if row.run_id in final}


def _check_condemned(repo: Repository, committed: set[str]) -> None:
    """No condemned address is referenced: by a staged row that counts, or by a commit."""
    outside = [address for address in raw.ledger_states(repo) if "://" in address]
    assert not outside, "the ledger has an address outside the catalog"
    assert not expired(repo) & _staged(repo, (TokenState.OPEN, TokenState.SEALED)), (
        "what a rule took is staged"
    )
    condemned = _condemned(repo)
    assert not condemned & _staged(repo, HOLDING), "a condemned address is staged"
    assert not condemned & committed, "a condemned address is committed"


def _condemned(repo: Repository) -> set[str]:
    """Addresses that the reaper is to delete; those of a run are its own."""
    return {
        row.address
        for row in raw.rows(repo, ledger)
        if row.state == LedgerState.CONDEMNED and row.run_id is None
    }


def _check_rows(repo: Repository) -> None:
    """After a cleaning only rows of changes that can be seen are left, and their ledger rows."""
    staged = _staged(repo, (TokenState.OPEN, TokenState.SEALED))
    assert _staged(repo, tuple(TokenState)) == staged, "rows of an ended token are left"
    entered = {row.address for row in raw.rows(repo, ledger) if row.state == LedgerState.LIVE}
    assert entered <= staged, "the ledger has addresses that nothing stages any more"


def _check_forgotten(world: World) -> None:
    """Whatever was staged and is needed no more is condemned, or was committed once."""
    repo = world.repo
    committed = {
        address
        for commit, state in commit_states(repo).items()
        if state == CommitState.LIVE
        for address in addresses_of(repo, commit)
    }
    uploads = {address for address in world.there() if "/branches/" in address}
    left = uploads - world.needed() - committed - raw.ledger_states(repo).keys()
    assert not left, f"nothing remembers that these can go: {left}"


def _staged(repo: Repository, states: tuple[TokenState, ...]) -> set[str]:
    tokens = {row.id for row in raw.rows(repo, staging_tokens) if row.state in states}
    rows = raw.rows(repo, staged_entries)
    return {row.address for row in rows if row.token_id in tokens and row.address and row.owned}

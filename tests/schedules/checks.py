"""What must hold at the end of every schedule."""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b

from reclaim.catalog import Repository
from reclaim.catalog.database.schema import (
    CommitState,
    LedgerState,
    TokenState,
    ledger,
    staged_entries,
    staging_tokens,
)
from reclaim.catalog.staging.ledger import HOLDING
from reclaim.testing.scheduler import Trace
from tests.catalog import raw
from tests.collect.world import Files, World, addresses_of, commit_states, whole
from tests.schedules.past import Past
from tests.soak import SOAK

QUIET_IN = 1 if SOAK else 24
"""Of so many ends one is collected, to see that nothing is left; of named races more."""
QUIET_IN_RACES = 1 if SOAK else 6


class Checks:
    """Checks the end of a schedule. An end that was seen before needs no second look."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._ends: dict[bytes, str] = {}

    def check(self, trace: Trace, *, named: bool = False) -> str:
        """Fail with the schedule if something is lost or left; returns what the end shows."""
        key = blake2b(repr(self._past.state()).encode(), digest_size=16).digest()
        if key not in self._ends:
            # Who fails, dies or loses its partition leaves what only an offline run finds.
            everyone_done = "late collect" not in trace.names and not any(
                isinstance(end, BaseException) for end in trace.results
            )
            quiet = key[0] % (QUIET_IN_RACES if named else QUIET_IN) == 0
            try:
                self._ends[key] = self._check(everyone_done, quiet)
            except Exception as error:
                steps = "\n".join(f"  {trace.names[s.task]}: {s.name}" for s in trace.steps)
                raise AssertionError(f"{trace}: {trace.outcome}\n{steps}\n{error!r}") from error
        return self._ends[key]

    def _check(self, everyone_done: bool, quiet: bool) -> str:
        world = self._past.world
        repo = world.repo
        objects: Files = {}
        reached = world.reached(repo)
        for commit in reached:
            whole(repo, commit, objects)
        shown = _shown(repo, objects)
        _check_condemned(repo, reached)
        repo.clean()
        _check_rows(repo)
        if everyone_done:
            _check_forgotten(world)
        if quiet:
            world.quiet()
            _check_rows(repo)
        return shown


def _check_condemned(repo: Repository, reached: set[str]) -> None:
    """No condemned address is referenced: by a staged row that counts, or by a commit."""
    states = raw.ledger_states(repo)
    assert not [address for address in states if "://" in address], "it lies outside the catalog"
    condemned = {address for address, state in states.items() if state == LedgerState.CONDEMNED}
    staged = _staged(repo, HOLDING)
    assert not condemned & staged, "a condemned address is staged"
    committed = {address for commit in reached for address in addresses_of(repo, commit)}
    assert not condemned & committed, "a condemned address is committed"


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


def _shown(repo: Repository, objects: Files) -> str:
    """What users could see at the end, without ids that differ."""
    branches = {ref.name: whole(repo, ref.name, objects) for ref in repo.branches()}
    heads = {ref.name: repo.commit(ref.commit).message for ref in repo.branches()}
    states: dict[str, int] = defaultdict(int)
    for state in commit_states(repo).values():
        states[state] += 1
    condemned = sorted(
        str(row.path) for row in raw.rows(repo, ledger) if row.state == LedgerState.CONDEMNED
    )
    leases = len(repo.leases())
    return repr((sorted(branches.items()), heads, sorted(states.items()), condemned, leases))

"""What must hold at the end of every schedule."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from reclaim.catalog import Repository
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.schema import (
    ClaimState,
    CommitState,
    LedgerState,
    PartitionState,
    TokenState,
    UploadState,
    claimed_addresses,
    claims,
    commits,
    leases,
    ledger,
    partitions,
    staged_entries,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.staging.ledger import HOLDING
from reclaim.catalog.staging.upload_expiry import expire_uploads
from reclaim.safety import SAFETY
from tests.catalog import raw
from tests.collect.helpers.world import World, addresses_in, leftovers
from tests.schedules.past import WINDOW, Past
from tests.support.scheduler import Trace
from tests.support.soak import SOAK

LONG_AFTER = SAFETY.records + timedelta(days=2)
STAY_BEHIND = {"late collect", "late uncommitted", "reap from a copy"}
"""Operations of which one loses its partition, or works on a copy: what they leave no ledger knows,
and only an offline run finds it."""


class Checks:
    """Checks the ends of schedules. An end that was seen before needs no second look."""

    def __init__(self) -> None:
        self._ends: set[tuple[bytes, bool]] = set()
        self._reaped: set[bytes] = set()
        """Ends after a cleaning and a round of the reaper: many have become the same by then."""

    def check(self, past: Past, trace: Trace) -> bytes:
        """Fail with the schedule if something is lost or left; returns the state of the end."""
        assert "corrupt" not in trace.outcome, f"{trace}: what a run took is Gone, not damaged"
        state = past.state()
        everyone_done = not STAY_BEHIND & {*trace.names} and not any(
            isinstance(end, BaseException) for end in trace.results
        )
        if (state, everyone_done) not in self._ends:
            try:
                self._check(End(past), everyone_done)
            except Exception as error:
                steps = "\n".join(f"  {trace.names[s.task]}: {s.name}" for s in trace.steps)
                raise AssertionError(f"{trace}: {trace.outcome}\n{steps}\n{error!r}") from error
            self._ends.add((state, everyone_done))
        return state

    def _check(self, end: End, everyone_done: bool) -> None:
        end.check(everyone_done)
        end.clean_and_reap()
        state = end.structure()
        if state not in self._reaped:
            end.collect()
            self._reaped.add(state)


class End:
    """The end of a schedule, and what follows it: a cleaning, the reaper and an offline run."""

    def __init__(self, past: Past) -> None:
        self.past = past

    def check(self, everyone_done: bool) -> None:
        """All that can be seen reads back its bytes, and nothing of it is condemned."""
        world = self.past.world
        repo = world.repo
        committed = {entry.address for entry in self._entries(repo) if self._read(entry)}
        for ref in repo.branches():
            for entry in repo.at(ref.name).entries():
                self._read(entry)
        _check_condemned(repo, committed)
        repo.clean()
        _check_rows(repo)
        if everyone_done:
            # Who fails or dies leaves what only an offline run finds.
            _check_forgotten(self.past)

    def structure(self) -> bytes:
        """What an offline run decides by."""
        repo = self.past.world.repo
        names = {row.metarange for row in raw.rows(repo, commits) if row.state == CommitState.LIVE}
        return self.past.structure({name: addresses_in(repo, name) for name in names})

    def clean_and_reap(self) -> None:
        """A round of the reaper, long after: nothing is left of what it is there for."""
        world = self.past.world
        if self.past.undoable:
            # What can be undone holds more than refs do.
            world.purge(timedelta(0))
            # An undo holds what came back until the window is over.
            world.clock.advance(WINDOW)
        world.age()
        work = world.repo._workspace
        expire_uploads(work.database, work.clock, work.repo_uid)
        world.clock.advance(LONG_AFTER)
        world.opened().reap()
        assert not _condemned(world.repo), "the reaper left something"
        _check_needless(world.repo)

    def collect(self) -> None:
        """After an offline run all that is needed is there, and nothing else."""
        world = self.past.world
        self._collect()
        assert not raw.rows(world.repo, leases), "leases are left"
        if SOAK:
            # Partitions that the first run has closed a second one forgets, a month later.
            world.clock.advance(LONG_AFTER)
            self._collect()
            _check_partitions(world)

    def _collect(self) -> None:
        world = self.past.world
        store = world.store()
        world.apply(world.plan(allowed_fraction=1.0, store=store), store=store)
        if leftovers(world.repo):
            # Commits of which no object was there end with a run that takes none.
            world.apply(world.plan(store=store), store=store)
        assert not world.leftovers(), "commits are on their way out for ever"
        assert world.there() == world.needed()
        for entry in self._entries(world.repo):
            self._read(entry)
        _check_needless(world.repo)

    def _entries(self, repo: Repository) -> list[Entry]:
        """All entries of the commits that refs and leases reach."""
        metaranges = {row.id: row.metarange for row in raw.rows(repo, commits)}
        reached = {metaranges[commit] for commit in self.past.world.reached(repo)}
        containers = repo._workspace.containers
        return [entry for metarange in reached for entry in containers.tree(metarange).entries()]

    def _read(self, entry: Entry) -> bytes:
        """An entry's own bytes, straight from the folder."""
        place = self.past.objects / entry.address if entry.owned else self.past.known.outside
        if not place.exists() and entry.address in expired(self.past.world.repo):
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


def _check_needless(repo: Repository) -> None:
    """Long after all ended no row is left but of what there is, and of what a run owns."""
    _check_rows(repo)
    ended = [row.state for row in raw.rows(repo, upload_tokens) if row.state != UploadState.PENDING]
    assert not ended, "upload tokens that were used or expired are left"
    entered = [row for row in raw.rows(repo, ledger) if row.run_id is None]
    assert {row.state for row in entered} <= {LedgerState.LIVE}, "rows of deleted objects are left"
    tokens = {row.state for row in raw.rows(repo, staging_tokens)}
    assert TokenState.DROPPED not in tokens, "tokens of dropped changes are left"


def _check_partitions(world: World) -> None:
    repo = world.repo
    used = {part for address in world.there() for part in address.split("/")}
    closed = {row.id for row in raw.rows(repo, partitions) if row.state == PartitionState.CLOSED}
    assert closed <= used | world.in_flight(repo), "closed partitions are left that are empty"


def _check_forgotten(past: Past) -> None:
    """Whatever was staged and is needed no more is condemned, or was committed once.

    What was committed only an offline run takes; its commit may be on its way out already.
    """
    world, repo = past.world, past.world.repo
    live = {row.metarange for row in raw.rows(repo, commits) if row.state == CommitState.LIVE}
    committed = past.committed.union(*(addresses_in(repo, metarange) for metarange in live))
    uploads = {address for address in world.there() if "/branches/" in address}
    left = uploads - world.needed() - committed - raw.ledger_states(repo).keys()
    assert not left, f"nothing remembers that these can go: {left}"


def _staged(repo: Repository, states: tuple[TokenState, ...]) -> set[str]:
    tokens = {row.id for row in raw.rows(repo, staging_tokens) if row.state in states}
    rows = raw.rows(repo, staged_entries)
    return {row.address for row in rows if row.token_id in tokens and row.address and row.owned}

"""The book of what runs took and owe, kept by looking at the storage and never by their records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from reclaim.catalog.database.schema import CommitState, commits
from reclaim.errors import ReclaimError
from reclaim.run_record import Phase
from tests.catalog import raw
from tests.collect.helpers.removals import at_quarantine, read
from tests.collect.helpers.world import NAME, Files, World, addresses_of

TAKEN = (CommitState.CONDEMNED, CommitState.QUARANTINED)


@dataclass
class Promises:
    """Of each run that can be undone, every byte that must come back.

    ``needs`` has the addresses of every commit that was ever about to be taken.
    """

    world: World
    taken: dict[str, Files] = field(default_factory=dict)
    waiting: dict[str, dict[str, Files]] = field(default_factory=dict)
    """What the commits of a run needed, and was in its place when it had taken the rest."""
    commits: dict[str, set[str]] = field(default_factory=dict)
    """The commits that each run took."""
    needs: dict[str, frozenset[str]] = field(default_factory=dict)
    known: Files = field(default_factory=dict)
    """The bytes of everything that was ever taken, as they were at first."""
    lost: set[str] = field(default_factory=set)
    """Homes of which others have destroyed what was set aside."""

    def learn(self) -> None:
        """Read what each commit needs, as long as it can be read."""
        with self.world.opened() as catalog:
            repo = catalog.repository(NAME)
            for row in raw.rows(repo, commits):
                if row.state == CommitState.LIVE and row.id not in self.needs:
                    # One that was given back and collected in between.
                    with suppress(ReclaimError):
                        self.needs[row.id] = frozenset(addresses_of(repo, row.id))

    def read(self, homes: Iterable[str]) -> Files:
        found = {home: read(self.world, home) for home in homes}
        return {home: data for home, data in found.items() if data is not None}

    def note(self, run: str, gone: Mapping[str, bytes]) -> None:
        """What a run took just now. What it only condemned it owes as well, where it is."""
        self.taken.setdefault(run, {}).update(gone)
        self.commits[run] = self.commits_of(run)
        self.known = {**gone, **self.known}
        self.waiting[run] = {
            commit: self.read(self.needs.get(commit, ())) for commit in self.commits[run]
        }

    def forget(self, run: str) -> None:
        self.taken.pop(run, None)
        self.waiting.pop(run, None)
        self.commits.pop(run, None)

    def homes(self) -> list[tuple[str, bytes]]:
        """From where something was taken, and nothing is now, in the order of the bytes."""
        there = self.world.there()
        taken = {home: data for files in self.taken.values() for home, data in files.items()}
        free = [home for home in taken if home not in there and home not in self.lost]
        return sorted(((home, taken[home]) for home in free), key=lambda one: one[::-1])

    def spared(self) -> list[str]:
        """What only commits need that are condemned, and is in its place."""
        self.learn()
        rows = {row.id: row.state for row in raw.rows(self.world.repo, commits)}
        owed = {
            home
            for waiting in self.waiting.values()
            for commit, files in waiting.items()
            if rows[commit] == CommitState.CONDEMNED
            for home in files
        }
        live = [commit for commit, state in rows.items() if state == CommitState.LIVE]
        used = {home for commit in live for home in self.needs.get(commit, ())}
        return sorted((owed - used) & self.world.there())

    def drop(self, home: str) -> Files:
        """What is somebody else's affair from now on; returns its bytes."""
        for waiting in self.waiting.values():
            for files in waiting.values():
                files.pop(home, None)
        return self.read([home])

    def commits_of(self, run: str, *states: CommitState) -> set[str]:
        rows = raw.rows(self.world.repo, commits)
        return {row.id for row in rows if row.run_id == run and row.state in (states or TAKEN)}

    def check_kept(self, run: str) -> None:
        """The commits of a run are its own still; what it did not take of them is where it was."""
        assert self.commits.get(run, set()) <= self.commits_of(run)
        owed = self.commits_of(run)
        for commit, files in self.waiting.get(run, {}).items():
            if commit in owed:
                for home, data in files.items():
                    if home not in self.taken.get(run, {}):
                        assert read(self.world, home) == data, f"{home} of {commit} is not there"

    def check_back(self, run: str, state: str) -> set[str]:
        """Every byte is back after an undo; one that is not has others' bytes in its place.

        Of a run that is undone nothing at all is missing. Returns what is not back.
        """
        missing: set[str] = set()
        for home, data in self.taken.get(run, {}).items():
            there = read(self.world, home)
            if there != data:
                missing.add(home)
                assert state != Phase.UNDONE, f"{home} is not back, and the run is undone"
                assert there is not None or home in self.lost, f"{home} is lost"
        return missing

    def set_aside(self, run: str, home: str) -> bytes | None:
        """What a run has in quarantine."""
        return read(self.world, at_quarantine(self.world, run, home))

    def check_reason(self, commit: str) -> None:
        """A commit that did not come back misses something indeed."""
        if commit not in self.needs:
            return
        rows = {row.id: row for row in raw.rows(self.world.repo, commits)}
        parents = json.loads(rows[commit].parents)
        gone = [one for one in parents if rows[one].state != CommitState.LIVE]
        there = self.read(self.needs[commit])
        missing = [
            home
            for home in self.needs[commit]
            if home not in there or there[home] != self.known.get(home, there[home])
        ]
        assert gone or missing, f"{commit} is whole and was left"

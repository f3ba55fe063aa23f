"""Every duration that safety rests on, in one place, with what must hold between them.

Whoever changes one of them changes the argument in docs/explanation/safety.md. They are checked
when this module is loaded, and a test changes each of them until a check fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyTimes:
    """Durations by which data is kept. Longer is safer, where nothing else is said."""

    clock_skew: timedelta = 5 * MINUTE
    """How far two clocks may differ. A run that finds a larger difference stops."""

    # Locks

    request: timedelta = MINUTE
    """The longest that one request to the storage may take. Tasks stop so long before the end of
    the lock, and the lock is taken over so long after it."""
    lock_length: timedelta = 10 * MINUTE
    """For how long a lock is valid after it was taken or renewed."""
    lock_renewal: timedelta = 2.5 * MINUTE
    """How often it is renewed; shorter is safer."""
    first_wave: timedelta = MINUTE
    """How long the first wave of deletes may take. When it fails early, the lock is free early."""

    # Leases

    lease_refresh: timedelta = HOUR
    """How often a holder renews its lease; shorter is safer."""
    lease_length: timedelta = 2 * HOUR
    """For how long a lease is valid after it was refreshed, unless its holder asks otherwise."""
    longest_lease: timedelta = 30 * DAY
    """No lease is longer: who is alive renews it, and who is gone must not keep it."""
    budget: timedelta = 15 * MINUTE
    """From the read of leases to the first delete; shorter is safer. A holder that could not renew
    its lease stops so long before its end."""

    # Writers of the catalog

    partition_renewal: timedelta = MINUTE
    """How often a writer says that its partition is in use; shorter is safer."""
    partition_overdue: timedelta = 15 * MINUTE
    """A partition that was not renewed for so long may be closed."""
    upload_length: timedelta = 6 * HOUR
    """For how long a physical address may be linked after it was given out."""

    # Online hard delete

    reap_margin: timedelta = 15 * MINUTE
    """How long bytes stay that nothing refers to any more; who is reading them can finish."""
    reap_interval: timedelta = 5 * MINUTE
    """How often the reaper of an open catalog looks; only how soon something goes depends on it."""

    # Ages

    objects: timedelta = DAY
    """How old an object must be that nothing refers to."""
    work: timedelta = DAY
    """How old files must be that a run wrote for itself; another may still be reading them."""
    records: timedelta = 30 * DAY
    """How old plans and journals must be."""
    plan_digests: timedelta = 31 * DAY
    """For how long a store knows what its plans hashed to."""

    # The way back

    quarantine: timedelta = 7 * DAY
    """For how long what was set aside is kept, unless one asks otherwise."""
    after_undo: timedelta = DAY
    """For how long commits that came back, and that no ref names, are safe from the next run."""

    def __post_init__(self) -> None:
        for name, holds in self.invariants().items():
            if not holds:
                raise ValueError(f"this must hold of the times that safety rests on: {name}")

    def invariants(self) -> dict[str, bool]:
        """Conditions that must hold, each with why."""
        zero = timedelta(0)
        return {
            "every time is positive": all(
                getattr(self, name) > zero for name in self.__dataclass_fields__
            ),
            "a renewal of the lock may fail twice before its tasks have to stop": (
                3 * self.lock_renewal + self.request < self.lock_length
            ),
            "the first wave ends before the lock could be lost": (
                self.first_wave + self.request < self.lock_length - self.lock_renewal
            ),
            "a lease is renewed before its holder has to stop": (
                self.lease_refresh + self.budget + 2 * self.clock_skew < self.lease_length
            ),
            "a lease that is asked for may be as long as one that is not": (
                self.lease_length <= self.longest_lease
            ),
            "a renewal of a partition may fail many times, by any clock": (
                5 * self.partition_renewal + self.clock_skew < self.partition_overdue
            ),
            "what is being read outlasts the reaper's margin by any clock": (
                self.request + 2 * self.clock_skew < self.reap_margin
            ),
            "an online delete comes sooner than an offline one": (
                self.reap_margin + 2 * self.reap_interval < self.objects
            ),
            "what is written just now is young by every clock": (
                self.upload_length + self.clock_skew < self.objects
                and self.partition_overdue + self.clock_skew < self.objects
            ),
            "a run that reads files of another has ended before they go": (
                self.lock_length + self.clock_skew < self.work
            ),
            "a plan is believed for as long as its files are there": (
                self.records < self.plan_digests
            ),
            "what came back is safe for longer than a run takes to see it": (
                self.budget + self.lock_length < self.after_undo
            ),
            "what is in quarantine is kept for longer than the next nightly run": (
                self.quarantine > DAY
            ),
        }


SAFETY = SafetyTimes()

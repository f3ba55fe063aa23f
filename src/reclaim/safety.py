"""All durations of the safety argument, with their invariants.

A change of a duration changes the argument in docs/explanation/safety.md. The invariants are
checked at import, and a test changes each duration until a check fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyTimes:
    """Durations for which data is kept. Longer is safer, unless noted otherwise."""

    clock_skew: timedelta = 5 * MINUTE
    """Maximum difference of two clocks. A run with a larger difference stops."""

    # Locks

    request: timedelta = MINUTE
    """Maximum duration of a storage request. Tasks stop this long before the end of the lock, and
    the lock is taken over this long after it."""
    lock_length: timedelta = 10 * MINUTE
    """Validity of a lock after it was taken or renewed."""
    lock_renewal: timedelta = 2.5 * MINUTE
    """Interval between renewals of a lock; shorter is safer."""
    first_wave: timedelta = MINUTE
    """Maximum duration of the first wave of deletes. If it fails early, the lock is free early."""

    # Leases

    lease_refresh: timedelta = HOUR
    """Interval between renewals of a lease by its holder; shorter is safer."""
    lease_length: timedelta = 2 * HOUR
    """Validity of a lease after a renewal, unless its holder requests another."""
    longest_lease: timedelta = 30 * DAY
    """Maximum length of a lease: active holders renew it, and lost holders must not keep it."""
    budget: timedelta = 15 * MINUTE
    """Maximum time from the read of leases to the first delete; shorter is safer. A holder that
    cannot renew its lease stops this long before its end."""

    # Writers of the catalog

    partition_renewal: timedelta = MINUTE
    """Interval between reports of a writer on the partition it uses; shorter is safer."""
    partition_overdue: timedelta = 15 * MINUTE
    """A partition without a renewal for this long may be closed."""
    upload_length: timedelta = 6 * HOUR
    """How long a physical address can be linked after it was issued."""

    # Online hard delete

    reap_margin: timedelta = 15 * MINUTE
    """How long unreferenced bytes are kept, so that current readers can finish."""
    reap_interval: timedelta = 5 * MINUTE
    """Interval between rounds of the reaper of an open catalog; affects only how soon bytes are
    deleted."""

    # Ages

    objects: timedelta = DAY
    """Minimum age of an unreferenced object to be deleted."""
    work: timedelta = DAY
    """Minimum age of temporary files of a run to be deleted; another run may still read them."""
    records: timedelta = 30 * DAY
    """Minimum age of plans and journals to be deleted."""
    plan_digests: timedelta = 31 * DAY
    """How long a store keeps the digests of its plans."""

    # Undo

    quarantine: timedelta = 7 * DAY
    """Default quarantine period."""
    after_undo: timedelta = DAY
    """How long restored commits without a ref are safe from the next run."""

    def __post_init__(self) -> None:
        for name, holds in self.invariants().items():
            if not holds:
                raise ValueError(f"this must hold of the times that safety rests on: {name}")

    def invariants(self) -> dict[str, bool]:
        """Conditions on the durations, each with its reason."""
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

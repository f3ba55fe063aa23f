"""The contract of stores with rules for objects referenced by live snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from reclaim.errors import Conflict, Gone, LockLost, PlanRefused
from reclaim.ids import new_uid
from reclaim.run_record import Phase, RunRecord
from reclaim.storage import hashed_files
from reclaim.stores.abilities import AddressFiles, EditsHistory, HeldClaims, TakesReferenced
from reclaim.stores.base import Held, Store
from reclaim.testing.stores.required import LOCK_IS_FREE
from reclaim.testing.stores.subject import (
    Contract,
    HistorySubject,
    Subject,
    TakingSubject,
    failure_of,
)

RULE = "a rule"
RULES = '{"rules": "of the contract"}'


class TakingContract(Contract):
    """The duties of a store that declares ``TakesReferenced``."""

    def test_lifecycle_rules_are_kept(self, subject: Subject) -> None:
        self.require(subject, TakesReferenced)
        store, another = subject.store, subject.another()
        assert isinstance(store, TakesReferenced)
        assert isinstance(another, TakesReferenced)
        assert store.stored_lifecycle() is None
        for document in ("", "{}", '{"old": "days: 3 # \u00e4"}'):
            store.store_lifecycle(document)
            assert another.stored_lifecycle() == document
        another.store_lifecycle(None)
        assert store.stored_lifecycle() is None

    def test_a_claim_is_provisional(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        first, second = subject.referred()
        with _taking(subject.store, new_uid()) as (held, claims):
            assert claims.claim([(first, RULE)]) == 1
            assert not claims.has_promoted()
            failure_of(Conflict, lambda: subject.refer(first))
            subject.refer(second)
            held.abandon()
            subject.refer(first)
        assert {first, second} <= subject.objects()

    def test_claims_that_were_left_are_taken_back(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        first, second = subject.referred()
        with _taking(subject.store, new_uid()) as (_, claims):
            claims.claim([(first, RULE)])
        failure_of(Conflict, lambda: subject.refer(first))
        with _taking(subject.another(), new_uid()) as (_, claims):
            subject.refer(first)
            assert claims.claim([(second, RULE)]) == 1

    def test_claims_are_dropped_for_what_needs_them(self, subject: TakingSubject) -> None:
        """By name, and for staged objects."""
        self.require(subject, TakesReferenced)
        first, second = subject.referred()
        with _taking(subject.store, new_uid()) as (_, claims):
            assert claims.claim([(first, RULE), (second, RULE)]) == 2
            claims.close_claims()
            assert claims.drop_claims([first]) == 1
            assert self.claimed(subject, claims) == [second]
            subject.refer(first)
            # A claim does not check staged objects; dropping afterwards does.
            assert claims.claim([(first, RULE)]) == 2
            claims.close_claims()
            assert claims.drop_staged_claims() == 1
            assert self.claimed(subject, claims) == [second]

    def test_claims_are_promoted_by_the_last_reading(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        first, _ = subject.referred()
        rules = _store_rules(subject.store)
        with _closed_claim(subject.store, first) as claims:
            seen = self.observed(subject)
            subject.live()
            assert not claims.promote_claims(seen, rules)
            assert not claims.has_promoted()
            assert claims.promote_claims(self.observed(subject), rules)
            assert claims.has_promoted()

    def test_claims_by_other_rules_are_not_promoted(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        first, _ = subject.referred()
        rules = _store_rules(subject.store)
        with _closed_claim(subject.store, first) as claims:
            seen = self.observed(subject)
            _store_rules(subject.another(), "{}")
            failure_of(PlanRefused, lambda: claims.promote_claims(seen, rules))
            assert not claims.has_promoted()

    def test_promoted_claims_are_final(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        first, second = subject.referred()
        with _taking(subject.store, new_uid()) as (held, claims):
            self.promote(subject, claims, [first])
            held.abandon()
            assert claims.has_promoted()
            failure_of(Conflict, lambda: claims.drop_claims([first]))
            failure_of(Gone, lambda: subject.refer(first))
        with _taking(subject.another(), new_uid()) as (_, claims):
            # An object taken by another run is not taken again.
            assert claims.claim([(first, RULE), (second, RULE)]) == 1
            assert not claims.has_promoted()
            failure_of(Gone, lambda: subject.refer(first))

    def test_what_rules_took_is_known(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        store, (first, second) = subject.another(), subject.referred()
        assert isinstance(store, TakesReferenced)
        run, later = new_uid(), new_uid()
        with _taking(subject.store, run) as (_, claims):
            claims.claim([(first, RULE)])
            # It may still be dropped.
            assert list(store.expired_by()) == []
            assert self.expired(subject, store) == []
            self.promote(subject, claims, [first])
        with _taking(subject.store, later) as (_, claims):
            self.promote(subject, claims, [second])
        assert sorted(store.expired_by()) == sorted([run, later])
        assert self.expired(subject, store) == sorted([first, second])
        assert self.expired(subject, store, besides=run) == [second]
        assert self.expired(subject, store, of=run) == [first]
        assert [store.count_expired(run_id) for run_id in (run, later, new_uid())] == [1, 1, 0]

    def test_what_rules_took_can_be_let_go(self, subject: TakingSubject) -> None:
        """Objects at their own addresses, and objects no snapshot refers to any more."""
        self.require(subject, TakesReferenced)
        store, (first, second) = subject.store, subject.referred()
        assert isinstance(store, TakesReferenced)
        run = new_uid()
        with _taking(store, run) as (_, claims):
            self.promote(subject, claims, [first, second])
            # Its own are not forgotten.
            assert claims.forget_expired([first, second]) == 0
        with _taking(store, new_uid()) as (_, claims):
            assert claims.release_claims(run, [first]) == 1
            subject.refer(first)
            failure_of(Gone, lambda: subject.refer(second))
            assert self.expired(subject, store) == [second]
            assert claims.forget_expired([first, second]) == 1
            assert self.expired(subject, store) == []

    def test_who_lost_the_lock_takes_nothing(self, subject: TakingSubject) -> None:
        self.require(subject, TakesReferenced)
        store, (first, second) = subject.store, subject.referred()
        assert isinstance(store, TakesReferenced)
        rules = _store_rules(store)
        run, other = new_uid(), new_uid()
        with _taking(store, run) as (_, late):
            late.claim([(first, RULE)])
            seen = self.observed(subject)
            subject.wait(LOCK_IS_FREE)
            with _taking(subject.another(), other) as (_, claims):
                self.promote(subject, claims, [second])
                calls: list[Callable[[], object]] = [
                    partial(late.claim, [(first, RULE)]),
                    late.close_claims,
                    partial(late.drop_claims, [second]),
                    partial(late.promote_claims, seen, rules),
                    partial(late.release_claims, other, [second]),
                    partial(late.forget_expired, [second]),
                ]
                for call in calls:
                    failure_of(LockLost, call)
                subject.refer(first)
                assert list(store.expired_by()) == [other]
                assert self.expired(subject, store) == [second]

    def test_what_an_edit_took_out_is_known(self, subject: HistorySubject) -> None:
        """Rules keep its objects, for an undo of the edit."""
        self.require(subject, TakesReferenced)
        store, line = subject.store, subject.line()
        assert isinstance(store, TakesReferenced)
        assert list(store.find_released(line)) == []
        run = new_uid()
        with store.lock(run) as held:
            held.begin()
            assert isinstance(held, EditsHistory)
            held.start(RunRecord(run, "collect", Phase.STARTED, store.clock.now()))
            seen = held.read_history()
            above = next(node.parents for node in seen.snapshots if node.id == line[1])
            assert held.edit_history({line[2]: above}, (), seen)
            assert list(store.find_released(line)) == [line[1]]
            assert held.roll_back() == []
            assert list(store.find_released(line)) == []

    def promote(self, subject: TakingSubject, claims: HeldClaims, addresses: Sequence[str]) -> None:
        """Let a run take objects permanently."""
        rules = _store_rules(subject.store)
        claims.claim([(address, RULE) for address in addresses])
        claims.close_claims()
        assert claims.promote_claims(self.observed(subject), rules)
        assert self.claimed(subject, claims) == sorted(addresses)

    def claimed(self, subject: Subject, claims: HeldClaims) -> list[str]:
        """Return the addresses claimed by a run."""
        storage, prefix = subject.store.storage, _folder(subject.store)
        return _addresses(subject.store, claims.write_claimed(storage, prefix))

    def expired(
        self, subject: Subject, store: TakesReferenced, *, besides: str = "", of: str = ""
    ) -> list[str]:
        """Return the addresses taken by rules."""
        storage, prefix = subject.store.storage, _folder(subject.store)
        written = store.write_expired(storage, prefix, besides=besides, of=of)
        return _addresses(subject.store, written)


@contextmanager
def _taking(store: Store, run: str) -> Iterator[tuple[Held, HeldClaims]]:
    """Yield a started run, and its claims."""
    with store.lock(run) as held:
        held.begin()
        assert isinstance(held, HeldClaims)
        yield held, held


@contextmanager
def _closed_claim(store: Store, address: str) -> Iterator[HeldClaims]:
    """Yield the claim of a new run to an address, visible to everyone else."""
    with _taking(store, new_uid()) as (_, claims):
        claims.claim([(address, RULE)])
        claims.close_claims()
        yield claims


def _store_rules(store: Store, rules: str = RULES) -> str:
    assert isinstance(store, TakesReferenced)
    store.store_lifecycle(rules)
    return rules


def _folder(store: Store) -> str:
    _, prefix = store.place("contract")
    return f"{prefix}work/{new_uid()}/"


def _addresses(store: Store, written: AddressFiles) -> list[str]:
    tables = [hashed_files.read(store.storage, file, ["address"]) for file in written.files]
    assert tuple(table.num_rows for table in tables) == written.rows
    return sorted(address for table in tables for address in table.column("address").to_pylist())

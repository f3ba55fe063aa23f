"""Promotion of a lifecycle plan: claim, close, confirm, promote.

``catalog.collection.claimed_addresses`` explains why no object with an unmatched reference is
deleted. This module has the order of the steps, and the judging between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS
from reclaim.engine.requests import ConfirmRequest
from reclaim.engine.tasks.parts import Part, hashed_part, read_part
from reclaim.errors import IncompleteRead, OutOfTime, PlanRefused
from reclaim.ids import new_uid
from reclaim.policy.lifecycle import decode_lifecycle, lifecycle_document
from reclaim.run.apply.context import ApplyContext
from reclaim.run.lifecycle.rejudging import rejudge
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.checks import check_budget, check_protected, find_newly_protected
from reclaim.run.plan.dead_snapshots import find_dead_ids
from reclaim.run.plan.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run.roots.protection import hold_protected
from reclaim.run.roots.roots import hold_roots
from reclaim.storage import hashed_files
from reclaim.stores.abilities import HeldClaims, HeldGuards, TakesReferenced
from reclaim.stores.observation import Observation

ROUNDS = 20
"""Attempts to confirm before writers are asked to pause."""


class Promotion:
    """Claims of an apply, under the lock."""

    def __init__(self, context: ApplyContext, writer: RecordWriter) -> None:
        assert isinstance(context.held, HeldClaims)
        assert context.planned.lifecycle is not None
        self._context = context
        self._writer = writer
        self._store = context.store
        self._engine = context.engine
        self._claims: HeldClaims = context.held
        self._section = context.planned.lifecycle
        self.seen: Observation | None = None
        """Observation that confirmed the plan, set when it is promoted."""

    def stored_rules(self) -> str:
        """Return the stored rules. Refuse if they differ from the rules of the plan."""
        document = None
        if isinstance(self._store, TakesReferenced):
            document = self._store.stored_lifecycle()
        if document is not None:
            stored = decode_lifecycle(document, repository=self._store.name)
            if lifecycle_document(stored.policy) == self._section.policy:
                return document
        raise PlanRefused(
            f"the lifecycle rules of {self._store.name} were changed since the plan was made",
            hint="nothing was deleted; make a new plan: reclaim plan REPO --lifecycle",
        )

    def find_unneeded(self, done: Sequence[Part]) -> Sequence[Part]:
        """Return the candidates needed by commits only: not staged, in an upload, in an open
        partition, or promised by a run that can be undone.

        Promises do not change while the lock is held, and a closed partition stays closed. Entries
        staged from here on are checked again once the claims are closed. ``done`` is the journal of
        earlier applies.
        """
        context = self._context
        if isinstance(context.held, HeldGuards):
            context.held.close_overdue()
        # Live containers list candidates here, so all promised containers have to be read.
        seen = hold_roots(context.observe(), context.roots.after_marking(known=()))
        check_protected(self._store, context.planned, seen)
        confirmed = pipelines.confirm(
            self._engine,
            ConfirmRequest(
                self._store.format,
                context.basis.candidates,
                NO_CONTAINERS,
                seen.held,
                seen.closed,
                done,
                context.own.below("objects"),
                context.work,
            ),
        )
        if confirmed.read.held != seen.held_count:
            raise IncompleteRead(
                f"to confirm, {seen.held_count} staged or promised addresses were expected and "
                f"{confirmed.read.held} were read",
                hint="nothing was deleted; apply it again",
            )
        return confirmed.parts

    def claim(self, candidates: Sequence[Part]) -> int:
        """Claim candidates, and wait for writers that may add a reference without having seen the
        claims. Return the number of claimed addresses."""
        claimed = self._claims.claim(self._rules_of(candidates))
        self._claims.close_claims()
        return claimed

    def _rules_of(self, candidates: Sequence[Part]) -> Iterator[tuple[str, str]]:
        """Addresses with the rules that match them, read file by file."""
        for part in candidates:
            rows = read_part(self._context.storage, part, ["address", "reason"])
            columns = (rows.column(name).to_pylist() for name in ("address", "reason"))
            yield from zip(*columns, strict=True)

    def confirm_until_promoted(self, rules: str) -> int:
        """Judge again by the current references, until nothing changes; return the number of
        rounds.

        Claims are closed, so only commits can add references, and every commit changes a ref.
        """
        context = self._context
        for number in range(1, ROUNDS + 1):
            reported = context.observe_store()
            seen = hold_roots(reported, context.roots)
            check_protected(self._store, context.planned, seen)
            now = decide_seen(KEEPS_ALL, seen)
            judged = rejudge(
                self._store,
                self._engine,
                context.planned,
                context.place,
                seen,
                now,
                own=context.work.below(f"judged-{new_uid()}"),
                opener=context.opener,
            )
            leaving = self._addresses(judged.files, judged.addresses)
            self._claims.drop_claims(leaving)
            self._drop_held(reported, seen)
            self._drop_protected(seen, now)
            self._claims.drop_staged_claims()
            # After a jump of the clock, leases may look expired.
            context.check_clock()
            lock = context.held.lock
            check_budget(self._store, lock, seen.read_at, so_far="nothing was deleted")
            self._writer.promoting()
            if self._claims.promote_claims(seen, rules):
                self.seen = seen
                return number
            self._writer.not_promoted()
        raise OutOfTime(
            "branches, tags or leases changed faster than the plan could be confirmed",
            hint="nothing was deleted; apply it again when fewer commits are being made",
        )

    def _drop_held(self, reported: Observation, seen: Observation) -> None:
        """Drop claims of addresses held by roots, in addition to those the store ``reported``."""
        files = seen.held[len(reported.held) :]
        expected = seen.held_count - reported.held_count
        self._claims.drop_claims(self._addresses(files, expected))

    def _drop_protected(self, seen: Observation, now: Decided) -> None:
        """Drop claims of paths protected in commits created and deleted since the plan, in staged
        entries, or in lists remembered by other runs."""
        if not seen.protect:
            return
        context = self._context
        planned = plan_snapshots.read(context.storage, context.planned.snapshots.part)
        protected = hold_protected(
            seen,
            self._store,
            self._engine,
            find_dead_ids(seen, now) - planned.live - planned.dead.keys(),
            own=context.work.below(f"protected-{new_uid()}"),
            opener=context.opener,
        )
        self._claims.drop_claims(self._addresses(protected.held, protected.held_count))

    def check_not_protected(self) -> Observation:
        """Read the current roots for an interrupted run. Refuse to resume if further paths are
        protected."""
        seen = self._context.observe()
        if newly_protected := find_newly_protected(self._context.planned, seen):
            raise PlanRefused(
                f"{self._store.name} protects {', '.join(newly_protected)} since the plan was "
                f"made; cancel the run (reclaim undo {self._context.run}), or remove the "
                "protection",
            )
        return seen

    def _addresses(self, files: Sequence[str], expected: int) -> Iterator[str]:
        """Read the addresses in files, file by file. Refuse another number than expected."""
        read = 0
        for file in files:
            rows = hashed_files.read(self._context.storage, file, ["address"])
            read += rows.num_rows
            yield from rows.column("address").to_pylist()
        if read != expected:
            raise IncompleteRead(
                f"{expected} addresses leave the plan, but {read} were read",
                hint="nothing was deleted; apply it again",
            )

    def claimed(self, candidates: Sequence[Part]) -> Sequence[Part]:
        """Return the candidates claimed by this run according to the store. Only these are
        deleted."""
        context = self._context
        written = self._claims.write_claimed(context.storage, context.work.at("claimed/"))
        parts = [
            hashed_part(file, rows) for file, rows in zip(written.files, written.rows, strict=True)
        ]
        going = pipelines.intersect(self._engine, candidates, parts, context.own.below("going"))
        if count_rows(going) != written.count:
            raise IncompleteRead(
                f"the store has {written.count} addresses claimed by run {context.run}, but the "
                f"plan lists {count_rows(going)} of them",
                hint="check whether files of the plan were changed; nothing more was deleted",
            )
        return going


def count_rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)

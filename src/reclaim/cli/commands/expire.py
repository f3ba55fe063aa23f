"""``reclaim expire``: take old snapshots out of history, by rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.options.store_names import STORE
from reclaim.cli.session import Session
from reclaim.cli.views.describe import expired, snapshots
from reclaim.cli.views.documents import HolderDocument, Id
from reclaim.cli.views.output import Block
from reclaim.cli.views.policy_view import STORED
from reclaim.cli.views.snapshot_rows import (
    KEPT,
    AllOption,
    ReasonsOption,
    SnapshotRow,
    going_view,
    kept_view,
    snapshot_rows,
    snapshot_table,
)

if TYPE_CHECKING:
    from reclaim.run.plan.history_only import HistoryDecision
    from reclaim.run_record import RunRecord


def register(app: typer.Typer) -> None:
    command(app, "expire", expire)


ExpirePolicyOrigin = Literal["given", "stored", "none"]


class ExpireDecision(TypedDict):
    """A commit, and what the policy says of it."""

    commit: str
    written_at: datetime | None
    message: str
    refs: Sequence[str]
    decision: Literal["kept", "expired"]
    """What the policy says."""
    reasons: Sequence[str]
    kept: bool


class ExpireDocument(TypedDict):
    """Every decision, and what was or would be edited."""

    run: Id | None
    """For `undo`; null if nothing was changed."""
    applied: bool
    policy_source: ExpirePolicyOrigin
    decisions: Sequence[ExpireDecision]
    reparented: Mapping[str, Sequence[str]]
    """The new parents, by commit."""
    released: Sequence[str]
    """Commits that are unreachable because of that."""
    expired: int
    """Commits that a branch or a tag reaches and no rule keeps. Some stay: see `held_by`."""
    held_by: Sequence[HolderDocument]
    """The holders of expired commits that stay, the largest first."""
    expired_tips: Sequence[str]
    deleted_refs: Sequence[str]
    touched_bases: Sequence[str]
    """Branches whose merges will report every differing path."""
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Expired:
    """The answer: every decision, and what was or would be edited."""

    plan: HistoryDecision
    run: RunRecord | None
    only_planned: bool
    policy_source: str
    noun: str
    name: str
    """The store as commands name it; "" for a repository of the catalog."""
    is_final: bool = False
    """Whether it cannot be taken back."""
    place: str = ""
    """The store as the command line named it."""
    everything: bool = False
    all_reasons: bool = False
    warnings: Sequence[str] = ()
    """Rules that are for nothing."""

    def document(self) -> ExpireDocument:
        edit, counted = self.plan.decided.edit, self.plan.decided.count_expired()
        return {
            "run": self.run.id if self.run else None,
            "applied": self.run is not None,
            "policy_source": cast(ExpirePolicyOrigin, self.policy_source),
            "decisions": [
                cast(ExpireDecision, {**row.document(), "kept": row.decision == KEPT})
                for row in self._rows()
            ],
            "reparented": {commit: list(new) for commit, new in edit.reparent.items()},
            "released": list(self._released()),
            "expired": counted.snapshots,
            "held_by": [cast(HolderDocument, holder.record()) for holder in counted.held_by],
            "expired_tips": [ref.name for ref in edit.expired_tips],
            "deleted_refs": [ref.name for ref in edit.delete_refs],
            "touched_bases": [base.branch for base in edit.touched_bases],
            "warnings": list(self.warnings),
        }

    def view(self) -> Iterator[Block]:
        from reclaim.history.expired import UNDO
        from reclaim.run.expire.released import release_command

        edit, counted = self.plan.decided.edit, self.plan.decided.count_expired()
        released = set(self._released())
        rows = list(self._rows())
        staying = [row for row in rows if row.id not in released]
        if self.policy_source == STORED:
            yield "The policy that is stored with the repository was used."
        yield from going_view(
            (row for row in rows if row.id in released),
            len(released),
            self.noun,
            everything=self.everything,
            all_reasons=self.all_reasons,
        )
        if self.everything:
            yield snapshot_table(staying, self.noun, all_reasons=self.all_reasons)
        else:
            yield from kept_view(Counter(row.reasons[0] for row in staying), self.noun)
        verb = "would get" if self.only_planned else "got"
        yield expired(counted.snapshots, counted.held_by, self.noun)
        for holder in counted.held_by:
            if holder.kind == UNDO:
                release = release_command(self.place, holder.name)
                yield f"To let rules take what that undo brought back: {release}"
        if edit.empty:
            yield "History stays as it is."
        else:
            yield f"{snapshots(len(edit.reparent), self.noun)} {verb} other parents."
            reached = "would be" if self.only_planned else "will be"
            yield f"{snapshots(len(released), self.noun)} {reached} unreachable."
        for ref in edit.delete_refs:
            gone = "would be deleted" if self.only_planned else "was deleted"
            yield f"The {ref.kind} {ref.name} {gone}: its {self.noun} is expired."
        reports = "would report" if self.only_planned else "will report"
        for base in edit.touched_bases:
            yield (
                f"Merging {base.branch} with the default branch {reports} every differing path as "
                "a conflict, because their merge base expires (--keep-merge-bases keeps it)."
            )
        for warning in self.warnings:
            yield f"Note: {warning}."
        if self.run is not None:
            option = f" --store {self.name}" if self.name else ""
            if self.is_final:
                yield (
                    "No bytes were deleted. The store's own library edited the history, which "
                    "cannot be taken back; until they are collected, a branch or a tag can be "
                    f"made at the {self.noun}s."
                )
            else:
                yield f"No bytes were deleted. To take it back: reclaim undo {self.run.id}{option}"

    def _rows(self) -> Iterator[SnapshotRow]:
        seen = self.plan.seen
        return snapshot_rows(self.plan.decided.reached(), seen.snapshots, seen.refs)

    def _released(self) -> Iterator[str]:
        released = self.plan.decided.released()
        return (one for one in self.plan.decided.edit.unreachable if one in released)


def expire(
    session: Session,
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE, show_default=False)],
    rules: RuleOptions,
    ref: Annotated[
        list[str] | None,
        typer.Option("--ref", metavar="REF", help="Edit only what this reaches; repeatable."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show it and change nothing.")] = False,
    everything: AllOption = False,
    reasons: ReasonsOption = False,
) -> None:
    """Take snapshots out of history by rules. Deletes no bytes, so it does not ask."""
    from reclaim.engine.local.engine import LocalEngine
    from reclaim.policy import unmatched_sentences
    from reclaim.run.apply.apply_plan import apply_plan
    from reclaim.run.plan.history_only import decide_history, plan_history
    from reclaim.run.plan.planning import PlanOptions
    from reclaim.run.plan.stored_policy import choose_policy, find_stored
    from reclaim.stores.abilities import ExpiresItself
    from reclaim.stores.registry import name_of

    given, refs, run = rules.read(), ref or (), None
    with session.stores(store) as [opened]:
        chosen = choose_policy(given, find_stored(opened) if given is None else None)
        options = PlanOptions(
            chosen.policy,
            chosen.source,
            delete_expired_tags=rules.delete_expired_tags,
            delete_expired_branches=rules.delete_expired_branches,
        )
        if not plan:
            # An edit that a run left which died is not planned from.
            opened.clean()
        decision = decide_history(opened, options, refs=refs)
        if not plan and not decision.decided.edit.empty:
            made = plan_history(opened, options, refs=refs)
            apply_plan(opened, LocalEngine(), made.place, digest=made.document.digest)
            run = opened.find_run(made.document.run)
    is_final = isinstance(opened, ExpiresItself) and bool(opened.irreversible())
    session.output.answer(
        Expired(
            decision,
            run if run and run.edit.counts else None,
            plan,
            chosen.source,
            opened.noun,
            "" if opened.kind == "catalog" else name_of(opened.kind, opened.name, opened.uid),
            is_final=is_final and decision.library_edit is not None,
            place=store,
            everything=everything,
            all_reasons=reasons,
            warnings=unmatched_sentences(chosen.policy, decision.seen.refs),
        )
    )

"""``reclaim expire``: take old snapshots out of history, by rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import parse_repository
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
    from reclaim.policy import Policy
    from reclaim.run.expire.expire import ExpirePlan
    from reclaim.run_record import RunRecord
    from reclaim.stores.base import Store


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

    plan: ExpirePlan
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

    def document(self) -> ExpireDocument:
        edit, counted = self.plan.edit, self.plan.decided.count_expired()
        return {
            "run": self.run.id if self.run else None,
            "applied": self.run is not None,
            "policy_source": cast(ExpirePolicyOrigin, self.policy_source),
            "decisions": [
                cast(ExpireDecision, {**row.document(), "kept": row.decision == KEPT})
                for row in self._rows()
            ],
            "reparented": {commit: list(new) for commit, new in edit.reparent.items()},
            "released": list(self.plan.released()),
            "expired": counted.snapshots,
            "held_by": [cast(HolderDocument, holder.record()) for holder in counted.held_by],
            "expired_tips": [ref.name for ref in edit.expired_tips],
            "deleted_refs": [ref.name for ref in edit.delete_refs],
            "touched_bases": [base.branch for base in edit.touched_bases],
            "warnings": list(self.plan.warnings()),
        }

    def view(self) -> Iterator[Block]:
        from reclaim.history.expired import UNDO
        from reclaim.run.expire.released import release_command

        edit, counted = self.plan.edit, self.plan.decided.count_expired()
        released = set(self.plan.released())
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
        for warning in self.plan.warnings():
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
        read = self.plan.read
        return snapshot_rows(self.plan.decided.reached(), read.snapshots, read.refs)


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
    from reclaim.stores.registry import find_foreign

    given = rules.read()
    foreign = find_foreign(store)
    if foreign is not None:
        answer = _of_store(foreign, given, rules, ref or (), only_plan=plan)
    else:
        answer = _of_catalog(session, store, given, rules, ref or (), only_plan=plan)
    session.output.answer(replace(answer, place=store, everything=everything, all_reasons=reasons))


def _of_catalog(
    session: Session,
    repository: str,
    given: Policy | None,
    rules: RuleOptions,
    refs: Sequence[str],
    *,
    only_plan: bool,
) -> Expired:
    """Expire commits of a repository of the catalog."""
    from reclaim.policy import decode_stored
    from reclaim.run.expire.expire import apply_expire, plan_expire
    from reclaim.run.plan.stored_policy import choose_policy

    with session.open() as catalog:
        repo = catalog.repository(parse_repository(repository))
        document = repo.stored_policy() if given is None else None
        stored = None if document is None else decode_stored(document, repository=repo.name)
        chosen = choose_policy(given, stored)
        if not only_plan:
            # An edit that a run left which died is not planned from.
            repo.release_left_over()
        planned = plan_expire(
            repo,
            chosen.policy,
            refs=refs,
            delete_expired_tags=rules.delete_expired_tags,
            delete_expired_branches=rules.delete_expired_branches,
        )
        run = None if only_plan else apply_expire(repo, planned)
    return Expired(planned, run, only_plan, chosen.source, "commit", "")


def _of_store(
    store: Store,
    given: Policy | None,
    rules: RuleOptions,
    refs: Sequence[str],
    *,
    only_plan: bool,
) -> Expired:
    """Expire snapshots of a store that is not of the catalog."""
    from reclaim.run.expire.store_expire import apply_store_expire, plan_store_expire
    from reclaim.run.plan.stored_policy import choose_policy, find_stored
    from reclaim.stores.abilities import ExpiresItself
    from reclaim.stores.registry import name_of

    chosen = choose_policy(given, find_stored(store) if given is None else None)
    if not only_plan:
        # An edit that a run left which died is not planned from.
        store.clean()
    planned = plan_store_expire(
        store,
        chosen.policy,
        refs=refs,
        delete_expired_tags=rules.delete_expired_tags,
        delete_expired_branches=rules.delete_expired_branches,
    )
    run = None if only_plan else apply_store_expire(store, planned)
    is_final = isinstance(store, ExpiresItself) and bool(store.irreversible())
    return Expired(
        planned,
        run,
        only_plan,
        chosen.source,
        store.noun,
        name_of(store.kind, store.name, store.uid),
        is_final=is_final and planned.library_edit is not None,
    )

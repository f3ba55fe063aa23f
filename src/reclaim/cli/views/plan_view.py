"""View of a plan."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

from reclaim.cli.config.settings import current
from reclaim.cli.options.plan_argument import shown, to_apply, to_show
from reclaim.cli.views.describe import expired, instant, objects, percent, snapshots
from reclaim.cli.views.output import Block, Table
from reclaim.cli.views.plan_history import PlanCommits, PlanHistory
from reclaim.cli.views.policy_view import STORED
from reclaim.ids import short
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.engine.tasks.parts import Place
    from reclaim.run.plan.plan_document import (
        Counts,
        Group,
        HistoryChange,
        HistoryOnly,
        Lifecycle,
        PlanDocument,
        TooYoung,
        Uncommitted,
    )

ROWS = 15
"""Number of rows shown of a long table; ``--json`` has all rows."""


class PlanFound(TypedDict):
    """A plan with its location and the decision on each commit."""

    plan: str
    """Folder or URL of the plan, for `show` and `apply`."""
    moved_from: str | None
    """Original location of a moved or copied plan; it can be applied only there."""
    not_recorded: str | None
    """Reason why the store did not record the plan; then apply it with its digest."""
    commits: PlanCommits | None
    """In the answer of `show`, and of `plan --history-only`."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Answer that shows a plan."""

    place: Place
    plan: PlanDocument
    not_recorded: str | None = None
    """Reason why the store did not record a new plan."""
    moved_to: Place | None = None
    """Current location of a copied or moved plan."""
    commits: PlanHistory | None = None
    """Verdict on each snapshot, if shown."""

    def document(self) -> Mapping[str, Any]:
        return {
            "plan": shown(self.moved_to or self.place),
            "moved_from": None if self.moved_to is None else shown(self.place),
            "not_recorded": self.not_recorded,
            **self.plan.model_dump(mode="json"),
            "commits": None if self.commits is None else self.commits.document(),
        }

    def view(self) -> Iterator[Block]:
        plan, location = self.plan, shown(self.place)
        name = f"{plan.store.name} (deleted)" if plan.store.deleted else plan.store.name
        yield f"Plan {short(plan.run)} for {name}, made {instant(plan.started_at)} UTC"
        if self.moved_to is not None:
            yield f"Files: {shown(self.moved_to)} (written to {location}, and applied only there)"
        else:
            yield f"Files: {location}"
        if plan.history_only is not None:
            yield from self._edit_only(plan.history_only)
        else:
            yield from self._objects()
        for warning in plan.warnings:
            yield f"Note: {warning}."
        yield ""
        yield f"Digest: {plan.digest}"
        if self.not_recorded:
            otherwise = ", or every object is compared with all live data again"
            yield (
                f"Note: the store did not record the plan ({self.not_recorded}). Apply it with "
                f"--digest{otherwise * (plan.history_only is None)}."
            )
        yield from self._next_step()

    def _edit_only(self, how: HistoryOnly) -> Iterator[Block]:
        """Describe a plan that only edits the history."""
        of = f" below {', '.join(how.refs)}" if how.refs else ""
        yield f"An edit of the history{of}: no bytes would be deleted.\n"
        yield from self._policy()
        if self.commits is not None:
            yield from self.commits.view()
        yield from edit_facts(self.plan)

    def _objects(self) -> Iterator[Block]:
        """Describe a plan that deletes objects."""
        plan = self.plan
        if plan.uncommitted is not None:
            yield from _looked_at(plan.uncommitted)
        if plan.lifecycle is not None:
            yield from _by_rules(plan.lifecycle)
        whole = plan.uncommitted is None and not (plan.lifecycle and plan.lifecycle.base)
        looked_at = "" if whole else " that were looked at,"
        part = percent(plan.candidate_bytes, plan.bytes)
        yield (
            f"Of {objects(plan.objects)} ({size(plan.bytes)}){looked_at} {plan.candidates} would "
            f"go ({size(plan.candidate_bytes)}): {part} of the bytes, "
            f"{percent(plan.candidates, plan.objects)} of the objects."
        )
        if plan.too_young:
            yield f"{too_young(plan.too_young, plan.store.noun)}."
        if plan.going:
            yield from self._going()
        yield "\nKept, by reason:"
        yield _table("reason", _sums(plan.staying, _why), len(plan.staying))
        yield "\nHistory:"
        yield from self._history()
        yield "\nChecked:"
        yield _counts(plan.expected, plan.read, plan.store.noun)
        if plan.inventory:
            yield f"The objects were taken from the inventory {plan.inventory}."
        yield plan.promise

    def _next_step(self) -> Iterator[Block]:
        """Name the next command."""
        plan = self.plan
        moved = self.moved_to
        name = to_show(plan, self.place) if moved is None else shlex.quote(shown(moved))
        applied = to_apply(plan, self.place)
        takes = plan.candidates or (plan.dead and plan.history_only is None)
        if takes or plan.edits_history:
            shows = f" To see each object: reclaim show {name} --objects" * bool(plan.candidates)
            yield f"Nothing was changed.{shows}"
            digest = f" --digest {plan.digest}" if self.not_recorded else ""
            yield f"{self._apply_to()}: reclaim apply {applied}{digest}"
        elif (
            plan.uncommitted is not None and plan.uncommitted.partitions is not None
        ) or plan.lifecycle is not None:
            yield "Nothing was changed, and nothing would go."
            yield f"To let the next run start from here: reclaim apply {applied}"
        elif plan.too_young:
            yield "Nothing was changed, and nothing would go yet. Plan it again then."
        else:
            yield "Nothing was changed, and nothing would go: there is no need to apply it."

    def _apply_to(self) -> str:
        """Describe the purpose of an apply."""
        plan = self.plan
        edit = "edit the history" if plan.edits_history else ""
        takes = ""
        if plan.history_only is None and (plan.candidates or plan.dead):
            quarantine = current()["quarantine"]
            moves = plan.store.quarantines if quarantine is None else quarantine
            takes = "move them to quarantine" if moves else "delete them"
        return f"To {' and '.join(filter(None, (edit, takes)))}"

    def _going(self) -> Iterator[Block]:
        plan = self.plan
        yield "\nTo delete, by reason:"
        yield _table("reason", _sums(plan.going, lambda group: group.reason))
        yield "\nBy kind:"
        yield _table("kind", _sums(plan.going, lambda group: group.kind))
        data = [group for group in plan.going if group.branch or group.prefix]
        if data:
            yield "\nBy branch of the upload and folder of the path:"
            yield _table("branch and folder", _sums(data, _where))
        yield "\nBy age:"
        yield _table("age", sorted(_sums(plan.going, lambda group: group.age), key=_by_age))
        yield "\nLargest objects:"
        # The store's own metadata says little, unless there is nothing else.
        largest = [item for item in plan.largest if item.path] or plan.largest
        rows = [(size(item.bytes), item.path or item.address) for item in largest[:ROWS]]
        yield Table(("bytes", "path"), rows, frozenset({"bytes"}))

    def _history(self) -> Iterator[Block]:
        plan = self.plan
        yield from self._policy()
        noun = plan.store.noun
        change = plan.history
        going = plan.expired if change is None else change.released - change.held
        unreached = plan.dead - going
        yield (
            f"{snapshots(plan.live, noun)} stay, on {plan.refs} {_plural('ref', plan.refs)} and "
            f"{plan.leases} {_plural('lease', plan.leases)}. {unreached} "
            f"{'was' if unreached == 1 else 'were'} already unreachable."
        )
        if plan.expired or any(plan.rules.values()):
            yield expired(plan.expired, [held.holder for held in plan.held_by], noun)
        if plan.history and plan.edits_history:
            yield _edit(plan.history, noun)
        if plan.deleted_refs:
            yield f"Refs that go with their {plan.store.noun}s: {', '.join(plan.deleted_refs)}."
        if self.commits is not None:
            yield from self.commits.view()

    def _policy(self) -> Iterator[Block]:
        plan = self.plan
        if plan.policy_source == STORED:
            yield f"The policy that is stored with {plan.store.name} was used:"
        for line in plan.policy:
            yield f"Policy: {line}."


def edit_facts(plan: PlanDocument) -> Iterator[str]:
    """Counts of a plan that only edits the history."""
    noun, change = plan.store.noun, plan.history
    yield expired(plan.expired, [held.holder for held in plan.held_by], noun)
    yield _edit(change, noun) if change and plan.edits_history else "The history stays as it is."
    if plan.deleted_refs:
        yield f"Refs that go with their {noun}s: {', '.join(plan.deleted_refs)}."


def _looked_at(how: Uncommitted) -> Iterator[Block]:
    """Describe the extent of a run on uncommitted data."""
    kind = "An" if how.mode == "incremental" else "A"
    of = "" if how.branch is None else f" of the branch {how.branch}"
    yield f"{kind} {how.mode} run{of}: {how.why}."
    looked_up = f" and looked up {objects(how.objects_looked_up)}" * bool(how.objects_looked_up)
    yield (
        f"It listed {objects(how.objects_listed)} in {how.partitions_listed} "
        f"{_plural('partition', how.partitions_listed)}{looked_up}, and read {how.ranges_read} "
        f"{_plural('range', how.ranges_read)} ({size(how.bytes_read)} in all). "
        f"{objects(how.objects_known)} are known."
    )


def _by_rules(how: Lifecycle) -> Iterator[Block]:
    """Describe the extent of a run of lifecycle rules."""
    kind = "An" if how.mode == "incremental" else "A"
    rules = len({rule.rule_id for rule in how.rules})
    yield (
        f"{kind} {how.mode} run of {rules} lifecycle {_plural('rule', rules)}, as of {how.today}: "
        f"{how.why}."
    )
    yield (
        f"It read {how.metaranges_read} {_plural('metarange', how.metaranges_read)} and "
        f"{how.ranges_read} {_plural('range', how.ranges_read)} ({size(how.bytes_read)} in all). "
        f"Kept {objects(how.held_count)} matched by rules but referenced (--held lists them)."
    )


def too_young(young: TooYoung, noun: str) -> str:
    """Describe the objects that may go later, with times in UTC."""
    parts = []
    if young.objects:
        parts.append(f"{objects(young.objects)} ({size(young.bytes)})")
    if young.snapshots:
        parts.append(snapshots(young.snapshots, noun))
    single = young.objects + young.snapshots == 1
    sentence = (
        f"{' and '.join(parts)} that nothing refers to {'is' if single else 'are'} too young, and "
        f"may go from {instant(young.first_at)} UTC"
    )
    if young.first_at == young.all_at:
        return sentence
    return f"{sentence} on, all of them from {instant(young.all_at)} UTC"


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"


def _edit(change: HistoryChange, noun: str) -> str:
    """Describe the planned edit of the history."""
    held = ""
    if change.held:
        held = (
            f" {change.held} of the removed {_stay(change.held)} for now, held by a lease or by a "
            "run that can be undone."
        )
    return (
        f"The edit removes {snapshots(change.released, noun)} from the history and re-links "
        f"{snapshots(change.reparented, noun)}.{held}"
    )


Sum = tuple[str, int, int]
"""Group name, objects, bytes."""


def _sums(groups: list[Group], key: Callable[[Group], str]) -> list[Sum]:
    """Sum groups by a key, the largest first."""
    sums: dict[str, tuple[int, int]] = {}
    for group in groups:
        count, total = sums.get(key(group), (0, 0))
        sums[key(group)] = count + group.objects, total + group.bytes
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    return [(name, count, total) for name, (count, total) in ordered]


def _table(head: str, sums: list[Sum], most: int = ROWS) -> Table:
    rows = [(name, str(count), size(total)) for name, count, total in sums[:most]]
    if len(sums) > most:
        others = sums[most:]
        total = sum(row[2] for row in others)
        rows.append((f"({len(others)} others)", str(sum(row[1] for row in others)), size(total)))
    return Table((head, "objects", "bytes"), rows, frozenset({"objects", "bytes"}))


def _why(group: Group) -> str:
    return f"{group.kind}: {group.reason}" if group.kind else group.reason


def _where(group: Group) -> str:
    return f"{unquote(group.branch) or '-'}  {group.prefix or '(path unknown)'}"


def _by_age(row: Sum) -> int:
    """Sort key of an age, which is words with a number of days."""
    return 0 if row[0].startswith("under") else int("".join(filter(str.isdigit, row[0])) or 0)


def _counts(expected: Counts, read: Counts, noun: str) -> Table:
    names = {
        "snapshots": f"{noun}s",
        "containers": f"containers of {noun}s that stay",
        "entries": "entries in those",
        "held": "staged or pending addresses",
    }
    rows = [
        (text, str(getattr(expected, name)), str(getattr(read, name)))
        for name, text in names.items()
    ]
    return Table(("", "expected", "read"), rows, frozenset({"expected", "read"}))

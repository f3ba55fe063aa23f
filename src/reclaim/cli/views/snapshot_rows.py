"""Snapshots of a history as people review them: what becomes of each, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reclaim.cli.options.panels import OUTPUT
from reclaim.cli.views.describe import first_line, snapshots
from reclaim.cli.views.documents import DecisionDocument, Verdict
from reclaim.cli.views.output import Block, Table
from reclaim.ids import SHORT

if TYPE_CHECKING:
    from reclaim.model import Decision, Ref, Snapshot

AllOption = Annotated[
    bool,
    typer.Option(
        "--all",
        help="List every commit, those that are kept as well.",
        rich_help_panel=OUTPUT,
    ),
]
ReasonsOption = Annotated[
    bool,
    typer.Option(
        "--reasons",
        help="Every reason of each commit, not the main one alone.",
        rich_help_panel=OUTPUT,
    ),
]
SHOWN = 50
"""How many snapshots people are shown unless they ask for all."""
COMPARED = 1_000
"""How many rows are compared for what they have in common; longer tables have all columns."""
MESSAGE_SHOWN = 40
"""How much of a message is shown, in characters."""
GROUPS_SHOWN = 10
"""How many reasons the counts of kept snapshots are given for."""
KEPT: Final = "kept"
EXPIRED: Final = "expired"

_DETAIL = re.compile(r" \([^()]*\)$|, written at or after .*$")
_OTHER = re.compile(r"layer [0-9a-f]{40}")
"""The parts of a reason that differ from snapshot to snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot, and what was decided on it. The first of its reasons is the main one."""

    id: str
    written_at: datetime | None
    message: str
    refs: Sequence[str]
    decision: Verdict
    reasons: Sequence[str]

    def document(self) -> DecisionDocument:
        return {
            "commit": self.id,
            "written_at": self.written_at,
            "message": self.message,
            "refs": list(self.refs),
            "decision": self.decision,
            "reasons": list(self.reasons),
        }


def snapshot_rows(
    decisions: Iterable[Decision], snapshots: Iterable[Snapshot], refs: Iterable[Ref]
) -> Iterator[SnapshotRow]:
    """The decisions of a policy on the snapshots of a history, in their order."""
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    names: dict[str, list[str]] = {}
    for ref in refs:
        names.setdefault(ref.snapshot, []).append(ref.name)
    for decision in decisions:
        snapshot = by_id[decision.id]
        yield SnapshotRow(
            snapshot.id,
            snapshot.written_at,
            snapshot.message,
            names.get(snapshot.id, ()),
            KEPT if decision.kept else EXPIRED,
            decision.reasons,
        )


def snapshot_table(
    rows: Iterable[SnapshotRow], count: int, noun: str, *, all_reasons: bool
) -> Iterator[Block]:
    """A row for each snapshot, with its main reason or with all of them.

    ``count`` is the number of all snapshots like these, of which the first may be shown alone.
    Decisions and refs are shown where rows differ in them; a decision or a reason of all rows is
    said once, before the table.
    """
    rest = iter(rows)
    first = list(islice(rest, COMPARED))
    more = next(rest, None)
    if more is not None:
        rest = chain([more], rest)
    decides = more is not None or len({row.decision for row in first}) > 1
    names = more is not None or any(row.refs for row in first)
    whys = [_why(row, all_reasons) for row in first]
    same = more is None and not all_reasons and len(whys) > 1
    said = _common(whys) if same else ""
    alike = bool(said) and set(whys) == {said}
    if first and not decides:
        yield f"{first[0].decision.capitalize()} ({snapshots(count, noun)}): {said}".rstrip()
    elif said:
        yield f"Each {noun}: {said}"

    def cells(row: SnapshotRow) -> Iterator[str]:
        message = first_line(row.message)
        if len(message) > MESSAGE_SHOWN:
            message = f"{message[: MESSAGE_SHOWN - 1]}…"
        yield row.id[:SHORT]
        yield "-" if row.written_at is None else f"{row.written_at:%Y-%m-%d %H:%M}"
        if decides:
            yield row.decision
        if names:
            yield ", ".join(row.refs) or "-"
        yield message or "-"
        if not alike:
            yield _why(row, all_reasons).removeprefix(f"{said} ").removesuffix(f": {said}")

    columns = [noun, "written (UTC)"]
    columns += ["decision"] * decides + ["refs"] * names + ["message"] + ["why"] * (not alike)
    listed = (tuple(cells(row)) for row in chain(first, rest))
    yield Table(tuple(columns), listed, last_below=not alike)


def _common(whys: Sequence[str]) -> str:
    """The text that all reasons have, beside the refs before or after it; "" if there is none."""
    if len(set(whys)) == 1:
        return whys[0]
    rules = {why.rpartition(": ")[2] if ": " in why else "" for why in whys}
    if len(rules) == 1 and "" not in rules:
        return rules.pop()
    counts = {why.partition(" on ")[0] if " on " in why else "" for why in whys}
    return counts.pop() if len(counts) == 1 else ""


def _why(row: SnapshotRow, all_reasons: bool) -> str:
    return "; ".join(row.reasons if all_reasons else row.reasons[:1])


def folded(main_reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """How many snapshots are kept for what, by their main reasons; the most frequent first."""
    counts: Counter[str] = Counter()
    for reason, count in main_reasons.items():
        counts[_OTHER.sub("another layer", _DETAIL.sub("", reason))] += count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def going_view(
    going: Iterable[SnapshotRow],
    count: int,
    noun: str,
    *,
    everything: bool,
    all_reasons: bool,
    listed_by: str = "--all",
) -> Iterator[Block]:
    """The snapshots that go, the first of them unless all are asked for, as ``listed_by`` does."""
    if not count:
        return
    limit = None if everything else SHOWN
    yield from snapshot_table(islice(going, limit), count, noun, all_reasons=all_reasons)
    if limit is not None and count > limit:
        yield f"(and {snapshots(count - limit, noun)} more; {listed_by} shows them)"


def kept_view(
    main_reasons: Mapping[str, int], noun: str, *, listed_by: str = "--all"
) -> Iterator[Block]:
    """The snapshots that stay, folded into counts."""
    if not main_reasons:
        return
    total = sum(main_reasons.values())
    yield f"Kept, by main reason ({snapshots(total, noun)}; {listed_by} lists them):"
    groups = folded(main_reasons)
    rows = [(str(count), reason) for reason, count in groups[:GROUPS_SHOWN]]
    if rest := groups[GROUPS_SHOWN:]:
        rows.append((str(sum(count for _, count in rest)), f"({len(rest)} other reasons)"))
    width = max(len(count) for count, _ in rows)
    yield from (f"  {count.rjust(width)}  {reason}" for count, reason in rows)

"""Snapshots of a history as people review them: what becomes of each, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from reclaim.cli.options.panels import OUTPUT
from reclaim.cli.views.describe import first_line, instant, snapshots
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


def snapshot_table(rows: Iterable[SnapshotRow], noun: str, *, all_reasons: bool) -> Table:
    """One line for each snapshot, with its main reason or with all of them."""

    def cells(row: SnapshotRow) -> tuple[str, ...]:
        message = first_line(row.message)
        if len(message) > MESSAGE_SHOWN:
            message = f"{message[: MESSAGE_SHOWN - 1]}…"
        return (
            row.id[:SHORT],
            "-" if row.written_at is None else instant(row.written_at),
            row.decision,
            ", ".join(row.refs) or "-",
            message or "-",
            "; ".join(row.reasons if all_reasons else row.reasons[:1]),
        )

    return Table(
        (noun, "written (UTC)", "decision", "refs", "message", "why"),
        map(cells, rows),
        always_headed=True,
    )


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
    yield snapshot_table(islice(going, limit), noun, all_reasons=all_reasons)
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

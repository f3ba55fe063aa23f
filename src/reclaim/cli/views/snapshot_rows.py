"""Table of snapshots for a review: decision and reasons of each."""

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
        help="List every commit, including kept commits.",
        rich_help_panel=OUTPUT,
    ),
]
ReasonsOption = Annotated[
    bool,
    typer.Option(
        "--reasons",
        help="Show every reason for each commit, not only the main reason.",
        rich_help_panel=OUTPUT,
    ),
]
SHOWN = 50
"""Number of snapshots shown without ``--all``."""
COMPARED = 1_000
"""Number of rows compared for common values; longer tables have all columns."""
MESSAGE_SHOWN = 40
"""Characters shown of a message."""
GROUPS_SHOWN = 10
"""Number of reasons in the counts of kept snapshots."""
KEPT: Final = "kept"
EXPIRED: Final = "expired"

_DETAIL = re.compile(r" \([^()]*\)$|, written at or after .*$")
_OTHER = re.compile(r"layer [0-9a-f]{40}")
"""Parts of a reason specific to a snapshot."""


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A snapshot with its decision. The first reason is the main reason."""

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
    """Yield a row for each decision of a policy, in the order of the decisions."""
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
    """Table of snapshots with the main reason, or with all reasons.

    ``count`` is the total number of such snapshots; ``rows`` may be only the first. Columns for
    decisions and refs appear if rows differ. A common decision or reason is printed once, above
    the table.
    """
    remaining = iter(rows)
    first = list(islice(remaining, COMPARED))
    more = next(remaining, None)
    if more is not None:
        remaining = chain([more], remaining)
    decides = more is not None or len({row.decision for row in first}) > 1
    names = more is not None or any(row.refs for row in first)
    reasons = [_why(row, all_reasons) for row in first]
    has_common = more is None and not all_reasons and len(reasons) > 1
    common = _common(reasons) if has_common else ""
    all_equal = bool(common) and set(reasons) == {common}
    if first and not decides:
        yield f"{first[0].decision.capitalize()} ({snapshots(count, noun)}): {common}".rstrip()
    elif common:
        yield f"Each {noun}: {common}"

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
        if not all_equal:
            yield _why(row, all_reasons).removeprefix(f"{common} ").removesuffix(f": {common}")

    columns = [noun, "written (UTC)"]
    columns += (
        ["decision"] * decides + ["refs"] * names + ["message"] + ["reason"] * (not all_equal)
    )
    listed = (tuple(cells(row)) for row in chain(first, remaining))
    yield Table(tuple(columns), listed, last_below=not all_equal)


def _common(reasons: Sequence[str]) -> str:
    """Return the text common to all reasons, apart from refs; "" if they differ."""
    if len(set(reasons)) == 1:
        return reasons[0]
    rules = {reason.rpartition(": ")[2] if ": " in reason else "" for reason in reasons}
    if len(rules) == 1 and "" not in rules:
        return rules.pop()
    counts = {reason.partition(" on ")[0] if " on " in reason else "" for reason in reasons}
    return counts.pop() if len(counts) == 1 else ""


def _why(row: SnapshotRow, all_reasons: bool) -> str:
    return "; ".join(row.reasons if all_reasons else row.reasons[:1])


def folded(main_reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """Count kept snapshots by main reason, the most frequent first."""
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
    """Table of expired snapshots: the first, or all. ``listed_by`` names the way to list all."""
    if not count:
        return
    limit = None if everything else SHOWN
    yield from snapshot_table(islice(going, limit), count, noun, all_reasons=all_reasons)
    if limit is not None and count > limit:
        yield f"(and {snapshots(count - limit, noun)} more; {listed_by} shows them)"


def kept_view(
    main_reasons: Mapping[str, int], noun: str, *, listed_by: str = "--all"
) -> Iterator[Block]:
    """Counts of kept snapshots by reason."""
    if not main_reasons:
        return
    total = sum(main_reasons.values())
    yield f"Kept, by main reason ({snapshots(total, noun)}; {listed_by} lists them):"
    groups = folded(main_reasons)
    rows = [(str(count), reason) for reason, count in groups[:GROUPS_SHOWN]]
    if others := groups[GROUPS_SHOWN:]:
        rows.append((str(sum(count for _, count in others)), f"({len(others)} other reasons)"))
    width = max(len(count) for count, _ in rows)
    yield from (f"  {count.rjust(width)}  {reason}" for count, reason in rows)

"""Commits of a plan: expired commits, and reasons to keep the others."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from reclaim.cli.options.plan_argument import shown, to_show
from reclaim.cli.views.documents import DecisionDocument, Verdict
from reclaim.cli.views.output import Block
from reclaim.cli.views.snapshot_rows import (
    EXPIRED,
    KEPT,
    SnapshotRow,
    folded,
    going_view,
    kept_view,
    snapshot_table,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from reclaim.run.plan.plan_location import LocatedPlan

LIVE = "live"
"""Verdict on a kept snapshot; see ``run.snapshot_reasons``."""
COLUMNS = ("id", "written_at", "message", "refs", "verdict", "released", "reasons")
BATCH = 1_000


class PlanCommits(TypedDict):
    """Decision on each commit; fields are null if the file of the plan is missing."""

    going: int | None
    kept: int | None
    listed: Sequence[DecisionDocument] | None
    kept_by: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """History in a plan: expired snapshots first, then kept snapshots."""

    noun: str
    going: pa.Table | None
    """None if the file with the snapshots is missing in a copied plan."""
    staying: pa.Table | None
    everything: bool = False
    all_reasons: bool = False
    listed_by: str = "--all"
    """Option or command to list every snapshot."""
    edit_only: bool = False
    """Whether the plan only edits the history and deletes nothing."""

    def document(self) -> PlanCommits:
        if self.going is None or self.staying is None:
            return {"going": None, "kept": None, "listed": None, "kept_by": None}
        listed = [*self._going(), *(_rows(self.staying) if self.everything else ())]
        return {
            "going": self.going.num_rows,
            "kept": self.staying.num_rows,
            "listed": [row.document() for row in listed],
            "kept_by": dict(folded(_main_reasons(self.staying))),
        }

    def view(self) -> Iterator[Block]:
        if self.going is None or self.staying is None:
            yield f"(The file with the {self.noun}s of the plan is not here; copy all of it.)"
            return
        if not self.going.num_rows and not self.everything and not self.edit_only:
            return
        yield from going_view(
            self._going(),
            self.going.num_rows,
            self.noun,
            everything=self.everything,
            all_reasons=self.all_reasons,
            listed_by=self.listed_by,
        )
        if self.everything:
            rows, count = _rows(self.staying), self.staying.num_rows
            yield from snapshot_table(rows, count, self.noun, all_reasons=self.all_reasons)
        else:
            yield from kept_view(_main_reasons(self.staying), self.noun, listed_by=self.listed_by)

    def _going(self) -> Iterator[SnapshotRow]:
        assert self.going is not None
        return _rows(self.going, EXPIRED if self.edit_only else None)


def read_history(
    plan: LocatedPlan, *, everything: bool = False, all_reasons: bool = False, listed_by: str = ""
) -> PlanHistory:
    """Read the snapshots of a plan from its files.

    For a plan that only edits the history: removed and remaining snapshots.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    document = plan.document
    edit_only = document.history_only is not None
    listed_by = listed_by or f"reclaim show {_named(plan)} --all"
    going = staying = None
    if plan.has(document.snapshots):
        rows = plan.read(document.snapshots, COLUMNS)
        verdict = rows.column("verdict").cast(pa.string())
        stays = pc.equal(verdict, LIVE)
        if edit_only:
            reached = pc.or_(stays, pc.equal(verdict, EXPIRED))
            stays = pc.invert(rows.column("released")).filter(reached)
            rows = rows.filter(reached)
        going, staying = rows.filter(pc.invert(stays)), rows.filter(stays)
    return PlanHistory(
        document.store.noun, going, staying, everything, all_reasons, listed_by, edit_only
    )


def _named(plan: LocatedPlan) -> str:
    moved = plan.moved_to
    return to_show(plan.document, plan.place) if moved is None else shlex.quote(shown(moved))


def _main_reasons(rows: pa.Table) -> dict[str, int]:
    """Count snapshots by their main reason."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = pc.list_element(rows.column("reasons").cast(pa.list_(pa.string())), 0)
    return {count["values"]: count["counts"] for count in pc.value_counts(first).to_pylist()}


def _rows(rows: pa.Table, decision: Verdict | None = None) -> Iterator[SnapshotRow]:
    for batch in rows.to_batches(max_chunksize=BATCH):
        for row in batch.to_pylist():
            yield SnapshotRow(
                row["id"],
                row["written_at"],
                row["message"] or "",
                [ref["name"] for ref in row["refs"] or ()],
                decision or (KEPT if row["verdict"] == LIVE else row["verdict"]),
                row["reasons"],
            )

"""The commits of a plan on the command line: those that go, and why others stay."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from reclaim.cli.options.found_plan import shown, to_show
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
"""The verdict on a snapshot that stays; see ``run.snapshot_reasons``."""
COLUMNS = ("id", "written_at", "message", "refs", "verdict", "released", "reasons")
BATCH = 1_000


class PlanCommits(TypedDict):
    """The fate of each commit; the fields are null if that file of the plan is missing."""

    going: int | None
    kept: int | None
    listed: Sequence[DecisionDocument] | None
    kept_by: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """The history in a plan: first the snapshots that go, then those that stay."""

    noun: str
    going: pa.Table | None
    """None when the file with the snapshots is not there, of a plan that was copied."""
    staying: pa.Table | None
    everything: bool = False
    all_reasons: bool = False
    listed_by: str = "--all"
    """The option or command that lists every snapshot."""
    edit_only: bool = False
    """Whether the plan edits the history alone: then those that go leave the history, and nothing
    is deleted."""

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
    found: LocatedPlan, *, everything: bool = False, all_reasons: bool = False, listed_by: str = ""
) -> PlanHistory:
    """The snapshots of a plan, from the file beside it.

    Of a plan that edits the history alone: those that leave it, and those that stay in it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    document = found.document
    edit_only = document.history_only is not None
    listed_by = listed_by or f"reclaim show {_named(found)} --all"
    going = staying = None
    if found.has(document.snapshots):
        rows = found.read(document.snapshots, COLUMNS)
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


def _named(found: LocatedPlan) -> str:
    moved = found.moved_to
    return to_show(found.document, found.place) if moved is None else shlex.quote(shown(moved))


def _main_reasons(rows: pa.Table) -> dict[str, int]:
    """How many snapshots have each main reason."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first = pc.list_element(rows.column("reasons").cast(pa.list_(pa.string())), 0)
    return {one["values"]: one["counts"] for one in pc.value_counts(first).to_pylist()}


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

"""Candidates of a plan by lifecycle rules: existing and deletable objects among matched
addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import judging
from reclaim.engine.tasks.judging import SURVIVORS, CandidateRules, Verdict
from reclaim.engine.tasks.lifecycle import ADDRESSES, HELD
from reclaim.globs import glob_regex
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.stores.format import Format

STAGED = "staged, an upload in progress, or a run that can be undone"
STAYS = "too young, protected, or in an open partition"


def rule_reason(rule_id: str) -> str:
    """Return the reason text for objects matched by a rule."""
    return f"lifecycle rule {rule_id}"


def by_rules(rules: CandidateRules, classes: BranchClasses) -> CandidateRules:
    """Return candidate rules with a reason text for each lifecycle rule."""
    return replace(rules, causes=[rule_reason(rule.rule_id) for rule in classes.rules], paths=())


def owned(format: Format, addresses: pa.Table) -> pa.Table:
    """Return the addresses below the store's own prefix."""
    return addresses.filter(pc.starts_with(addresses.column("address"), format.prefix))


def judge(
    format: Format,
    classes: BranchClasses,
    rules: CandidateRules,
    addresses: pa.Table,
    listed: pa.Table,
    shielded: pa.Array | None = None,
) -> tuple[pa.Table, pa.Table, pa.Table, Verdict]:
    """Return candidates, their addresses, the addresses kept anyway, and the verdict.

    ``listed`` are the existing objects of ``addresses``; ``shielded`` has for each of them the glob
    matching a former path, null for none.
    """
    at = pc.index_in(listed.column("address"), addresses.column("address").combine_chunks())
    known = addresses.take(at)
    named = pa.array([rule.rule_id for rule in classes.rules], pa.string())
    first_rule = pc.list_element(known.column("matched_rules"), 0)
    columns = [
        *listed.columns,
        pc.list_element(known.column("paths"), 0),
        pa.nulls(listed.num_rows, pa.string()),
        pc.index_in(first_rule, named),
    ]
    survivors = pa.table(columns, schema=SURVIVORS)
    paths = known.column("paths").combine_chunks()
    by_paths = first_globs(paths, rules.protect)
    kept = by_paths if shielded is None else pc.min_element_wise(by_paths, shielded)
    candidates, verdict = judging.judge(format, survivors, by_rules(rules, classes), shielded=kept)
    goes = pc.is_in(known.column("address"), candidates.column("address").combine_chunks())
    stays = as_held(known.filter(pc.invert(goes)), STAYS)
    return candidates, known.filter(goes), stays, verdict


def first_globs(paths: pa.ListArray, globs: Sequence[str]) -> pa.Array:
    """Return the number of the first glob matching any path of each object, null for none."""
    each, owners = pc.list_flatten(paths), pc.list_parent_indices(paths)
    numbers: pa.Array = pa.nulls(len(paths), pa.int32())
    for number, glob in enumerate(globs):
        matching = owners.filter(pc.match_substring_regex(each, glob_regex(glob)))
        matches = pc.is_in(pa.array(range(len(paths)), owners.type), pc.unique(matching))
        numbers = pc.coalesce(numbers, pc.if_else(matches, number, pa.scalar(None, pa.int32())))
    return numbers


def as_held(addresses: pa.Table, held_by: str) -> pa.Table:
    """Return addresses kept for the same reason, as ``HELD``."""
    holders = pa.array([[held_by]] * addresses.num_rows, pa.list_(pa.string()))
    columns: Sequence[pa.Array] = [
        addresses.column("address"),
        addresses.column("matched_rules"),
        holders,
    ]
    return pa.table(columns, schema=HELD)


PUBLISHED = pa.schema([pa.field("run_id", pa.string(), nullable=False), *ADDRESSES])
"""Addresses taken by rules, published for people."""


def published(run: str, addresses: pa.Table) -> pa.Table:
    """Return addresses, each row with the run that took it."""
    runs = pa.repeat(pa.scalar(run, pa.string()), addresses.num_rows)
    return pa.table([runs, *addresses.columns], schema=PUBLISHED)


def count_data(format: Format, listed: pa.Table) -> int:
    """Return the number of listed data objects, without metadata and files of runs."""
    kinds = pc.struct_field(format.describe(listed.column("address").combine_chunks()), "kind")
    return pc.sum(pc.equal(kinds, "data")).as_py() or 0

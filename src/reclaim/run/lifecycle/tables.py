"""The tables of lifecycle runs, as Parquet files for other programs, in ``_reclaim/lifecycle/``.

``policy/`` has the dated rules of every applied run, ``current_rules/`` those of the last run with
earlier deletions, ``potential_commits/`` the commits that may have data to delete, with their
branches, and ``addresses/date=<day>/`` the addresses matched by rules. A plan has its own tables in
its folder; a finished apply publishes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.lifecycle import PublishRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, copy_part, write_part
from reclaim.model import Snapshot, SnapshotId
from reclaim.policy.lifecycle import Bounds, DatedRule, current_rules
from reclaim.policy.lifecycle.classes import HOLDER
from reclaim.run.lifecycle.reach import Reach
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run_record import RunRecord
from reclaim.stores.base import Store

FOLDER = "_reclaim/lifecycle"

POLICY = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("rule_id", pa.string(), nullable=False),
        pa.field("prefix", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("date_to_be_deleted", pa.date32(), nullable=False),
    ]
)
CURRENT_RULES = pa.schema(
    [
        pa.field("prefix", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("date_to_be_deleted", pa.date32(), nullable=False),
        pa.field("last_deleted", pa.date32()),
    ]
)
POTENTIAL_COMMITS = pa.schema(
    [
        pa.field("commit_id", pa.string(), nullable=False),
        pa.field("written_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("branches", pa.list_(pa.string()), nullable=False),
        # Whether a tag, a lease, or a run that can be undone holds it.
        pa.field("held", pa.bool_(), nullable=False),
    ]
)


def finished_rules(runs: Iterable[RunRecord]) -> Iterator[DatedRule]:
    """Dated rules of finished runs."""
    for run in runs:
        if run.finished and run.lifecycle is not None:
            for rule in run.lifecycle.dates:
                yield DatedRule(rule.rule_id, rule.prefix, rule.branch, rule.date_to_be_deleted)


def policy_table(run: str, rules: Sequence[DatedRule]) -> pa.Table:
    """Table of the dated rules of a run."""
    columns = zip(
        *((run, r.rule_id, r.prefix, r.branch, r.date_to_be_deleted) for r in rules), strict=True
    )
    arrays = [pa.array(c, f.type) for c, f in zip(columns, POLICY, strict=True)]
    return pa.table(arrays, schema=POLICY)


def current_rules_table(rules: Sequence[DatedRule], finished: Iterable[DatedRule]) -> pa.Table:
    """Table of the current rules, with earlier deletions."""
    rows = [
        (rule.prefix, rule.branch, rule.date_to_be_deleted, rule.last_deleted)
        for rule in current_rules(rules, finished)
    ]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, CURRENT_RULES, strict=True)]
    return pa.table(arrays, schema=CURRENT_RULES)


def potential_commits(
    decided: Decided, reach: Reach, bounds: Bounds, before: Mapping[SnapshotId, int] | None
) -> pa.Table:
    """Table of commits with entries that may match now but did not match in an earlier run, with
    the branches that reach them.

    ``before`` has the earlier reach of commits, if comparable: a commit with a changed reach is
    potential at any date.
    """
    rows = []
    for snapshot, branches in _branches(decided):
        bits = reach.bits.get(snapshot.id, 0)
        if not branches:
            continue
        changed = before is None or before.get(snapshot.id) != bits
        committed: date = snapshot.written_at.astimezone(UTC).date()
        if changed or bounds.is_potential(committed, branches):
            rows.append((snapshot.id, snapshot.written_at, branches, bool(bits & HOLDER)))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(POTENTIAL_COMMITS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, POTENTIAL_COMMITS, strict=True)]
    return pa.table(arrays, schema=POTENTIAL_COMMITS)


def _branches(decided: Decided) -> Iterator[tuple[Snapshot, list[str]]]:
    """Commits with the branches that reach them; commits of a line share a list."""
    history = decided.history
    names: list[frozenset[str]] = [frozenset()] * len(history.snapshots)
    unions: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}

    def join(left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
        if left is right or not right:
            return left
        if not left:
            return right
        return unions.setdefault((left, right), left | right)

    for ref, tip in zip(history.refs, history.tips, strict=True):
        if ref.kind == "branch":
            names[tip] = names[tip] | {ref.name}
    for number, parents in enumerate(history.parents):
        for parent in parents:
            names[parent] = join(names[parent], names[number])
    for snapshot, branches in zip(history.snapshots, names, strict=True):
        yield snapshot, sorted(branches)


def publish_tables(
    store: Store, engine: Engine, planned: PlanDocument, place: Place, *, opener: Opener
) -> None:
    """Publish the tables of a run."""
    section = planned.lifecycle
    assert section is not None
    storage, source = opener(store.storage.url), opener(place.url)
    own = Place(store.storage.url, f"{store.format.prefix}{FOLDER}/")
    run, rules = planned.run, section.dated_rules
    write_part(storage, own.at(f"policy/{run}.parquet"), policy_table(run, rules))
    for name, file in (
        ("current_rules", section.current_rules),
        ("potential_commits", section.potential_commits),
    ):
        copy_part(source, storage, file.part, own.at(f"{name}/{name}.parquet"))
    addresses: Sequence[Part] = [file.part for file in section.addresses]
    day = own.below("addresses").below(f"date={section.today.isoformat()}")
    pipelines.publish(engine, PublishRequest(run, addresses, place.url, day))

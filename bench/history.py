"""The history's figure: deciding against one plain traversal of the same graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bench.figure import Figure, Timer
from bench.peak import peak_megabytes
from reclaim.garbage_collector import cyclic_gc_paused
from reclaim.history import build, expire
from reclaim.model import Ref, RefKind, Snapshot, SnapshotId
from reclaim.policy import Policy, evaluate, parse_policy

START = datetime(2025, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)

POLICY = {
    "default": {"older_than": "30d", "keep_last": 5, "keep_daily": 14},
    "rules": [
        {"match": "main", "keep_daily": 30, "keep_weekly": 26, "keep_merge_bases": True},
        {"match": "feature-1*", "keep_within": "7d", "keep_merge_bases": True},
        {"match": "feature-2*", "keep_hourly": 24, "keep_monthly": 12},
        {"match": "feature-3*", "older_than": "60d"},
    ],
}


def graph(
    commits: int, branches: int, *, mesh: bool = False, seed: int = 0
) -> tuple[list[Snapshot], list[Ref]]:
    """Branches that fork from main, merge it and are merged into it; a fifth are merges.

    In a mesh half of the merges are with any other branch instead, which is rare and harder.
    """
    chance = random.Random(seed)
    snapshots = [Snapshot(SnapshotId("c0"), (), START)]
    tips = {0: snapshots[0].id}
    names = [0]
    for number in range(1, commits):
        branch = 0 if chance.random() < 0.2 else chance.randrange(branches)
        parents = [tips.get(branch) or tips[0]]
        if chance.random() < 0.2:
            main = branch and not (mesh and chance.random() < 0.5)
            other_tip = tips[0 if main else chance.choice(names)]
            if other_tip not in parents:
                parents.append(other_tip)
        snapshot = Snapshot(SnapshotId(f"c{number}"), tuple(parents), START + number * STEP)
        snapshots.append(snapshot)
        if branch not in tips:
            names.append(branch)
        tips[branch] = snapshot.id
    refs = [
        Ref(f"feature-{branch}" if branch else "main", RefKind.BRANCH, tip, default=not branch)
        for branch, tip in tips.items()
    ]
    return snapshots, refs


def traverse(snapshots: list[Snapshot], refs: list[Ref]) -> int:
    """The plain traversal that everything is measured by: what do the refs reach?"""
    parents = {snapshot.id: snapshot.parents for snapshot in snapshots}
    seen: set[SnapshotId] = set()
    waiting = [ref.snapshot for ref in refs]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(parents[found])
    return len(seen)


def _decide(
    name: str,
    policy: Policy,
    runs: int,
    size: tuple[int, int],
    *,
    mesh: bool = False,
    reasons: bool = False,
) -> Figure:
    snapshots, refs = graph(*size, mesh=mesh)
    merges = sum(len(snapshot.parents) > 1 for snapshot in snapshots)
    now = snapshots[-1].written_at
    ratios, notes = [], [f"{merges / len(snapshots):.0%} of the commits are merges"]
    for _ in range(runs):
        timer = Timer()
        with timer("traversal"):
            traverse(snapshots, refs)
        # As a run does it.
        with timer("decide"), cyclic_gc_paused():
            history = build(snapshots, refs)
            decisions = evaluate(policy, history, now=now)
            edit = expire(history, decisions.kept, keep_bases_of=decisions.keep_bases_of)
            if reasons:
                decisions = decisions.with_bases(edit.kept_bases)
                sentences = sum(len(decision.reasons) for decision in decisions)
        ratios.append(timer.seconds["decide"] / timer.seconds["traversal"])
        notes.append(
            f"{timer.seconds['decide']:.3f} s, traversal {timer.seconds['traversal']:.3f} s; "
            f"{len(decisions.kept)} kept, {len(edit.reparent)} edited, "
            f"{len(edit.touched_bases)} bases touched"
        )
        # Otherwise the next run would take the time to let go of this one.
        del history, decisions, edit
    if reasons:
        notes.append(f"{sentences:,} sentences; {peak_megabytes():,.0f} MB at the peak")
    name = f"decide by {name} over {size[0]:,} commits of {len(refs):,} branches"
    target = "at most 20 times one traversal"
    return Figure(name, ratios, target, lambda ratio: ratio <= 20, notes)


def decide(runs: int = 3) -> Figure:
    """Order, policy and edit of a history, against one traversal of it."""
    return _decide("all rules", parse_policy(POLICY), runs, (100_000, 1_000), mesh=False)


def decide_age(runs: int = 3) -> Figure:
    """The same with one age rule for all refs."""
    policy = parse_policy({"default": {"older_than": "30d"}})
    return _decide("age", policy, runs, (100_000, 1_000), mesh=False)


def decide_mesh(runs: int = 3) -> Figure:
    """The same where branches merge each other at will."""
    return _decide("all rules in a mesh", parse_policy(POLICY), runs, (100_000, 1_000), mesh=True)


def decide_reasons(runs: int = 5) -> Figure:
    """The same over ten times the branches, and every decision with all its sentences."""
    size = (100_000, 10_000)
    return _decide("all rules with reasons", parse_policy(POLICY), runs, size, reasons=True)


FIGURES: dict[str, Callable[[], Figure]] = {
    "decide": decide,
    "decide-age": decide_age,
    "decide-mesh": decide_mesh,
    "decide-reasons": decide_reasons,
}

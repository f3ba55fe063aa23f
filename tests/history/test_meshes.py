"""Frontiers of histories that are too large to write down, against the same oracle."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings

from reclaim.history import expire
from reclaim.model import History, SnapshotId
from tests.history.graphs import mesh, meshes
from tests.history.trees import branch, oracle, tree
from tests.support.soak import MORE

pytestmark = pytest.mark.fast

Case = tuple[History, frozenset[SnapshotId]]


@given(meshes())
@settings(max_examples=100 * MORE, deadline=None)
def test_meshes_are_edited_by_the_definition(case: Case) -> None:
    assert expire(*case).reparent == oracle(*case)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.7])
def test_hundreds_of_origins(kept: float) -> None:
    case = mesh(random.Random(1), 400, 1_500, merges=0.5, kept=kept, origins=True)
    assert sum(not above for above in case[0].parents) > 300
    assert expire(*case).reparent == oracle(*case)


def test_hundreds_of_new_parents() -> None:
    origins = [f"o{number}" for number in range(600)]
    lines = [f"{origin}:" for origin in origins]
    lines.append(f"x: {' '.join(origins[300:])}")
    lines.append(f"y: {' '.join(origins[:300])} x {origins[400]}")
    edit = expire(tree("\n".join([*lines, "k: y"]), branch("main", "k")), {SnapshotId("k")})
    assert edit.reparent == {"k": tuple(origins)}


def test_a_ladder_of_merges_is_walked_once() -> None:
    """Two lines that merge each other at each step have a power of two of paths."""
    rungs = 400
    lines = ["o:", "a0: o", "b0: o"]
    for rung in range(1, rungs):
        lines += [f"a{rung}: a{rung - 1} b{rung - 1}", f"b{rung}: b{rung - 1} a{rung - 1}"]
    lines.append(f"k: b{rungs - 1} a{rungs - 1}")
    history = tree("\n".join(lines), branch("main", "k"))
    ends = frozenset(map(SnapshotId, ("a0", "b0", "k")))
    assert expire(history, ends).reparent == {"k": ("b0", "a0")}
    assert expire(history, ends - {"b0"}).reparent == {"k": ("o", "a0")}


def test_memory_is_for_open_lines_only() -> None:
    history, kept = mesh(random.Random(1), 8, 12_000, merges=0.3, kept=0.5, origins=False)
    tracemalloc.start()
    try:
        expire(history, kept)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Bitmaps of all snapshots at once would be more than 6 MB on top.
    assert peak < 4_000_000

"""Random histories for properties."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from reclaim.history import build
from reclaim.model import History, Ref, SnapshotId
from tests.history.trees import branch, snapshot, tag

NAMES = ["main", "a", "b", "c"]


@st.composite
def histories(draw: st.DrawFn, most: int = 14) -> History:
    """Up to ``most`` snapshots with up to three parents, some origins, some refs of both kinds.

    In half of them clocks run backwards now and then, or stand still.
    """
    count = draw(st.integers(1, most))
    steps = [1, 5, 23, 24, 100, *draw(st.sampled_from([(), (0, -1, -24, -150)]))]
    snapshots = []
    hours = 0
    for number in range(count):
        hours += draw(st.sampled_from(steps))
        older = st.lists(st.integers(0, max(number - 1, 0)), max_size=3, unique=True)
        parents = draw(older) if number else []
        if number and not parents and draw(st.integers(0, 4)):
            parents = [number - 1]
        text = " ".join(f"s{parent}" for parent in parents)
        snapshots.append(snapshot(f"s{number}", text, hours / 24))
    tips = st.integers(0, count - 1).map(lambda number: f"s{number}")
    refs: list[Ref] = []
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        refs.append(branch(name, draw(tips)))
    for name in ["v1", "v2"][: draw(st.integers(0, 2))]:
        refs.append(tag(name, draw(tips)))
    return build(snapshots, refs)


@st.composite
def kept_in(draw: st.DrawFn, history: History) -> frozenset[str]:
    return frozenset(one.id for one in history.snapshots if draw(st.booleans()))


def mesh(
    chance: random.Random, lines: int, size: int, *, merges: float, kept: float, origins: bool
) -> tuple[History, frozenset[SnapshotId]]:
    """Lines that merge each other at will, up to three at once, and what is kept of them.

    A line starts at the tip of another, or at an origin of its own.
    """
    snapshots = [snapshot("s0", "", 0)]
    tips = {0: "s0"}
    for number in range(1, size):
        line = chance.randrange(lines)
        parents = [tips[line]] if line in tips else []
        if not parents and not origins:
            parents = [chance.choice([*tips.values()])]
        while parents and chance.random() < merges and len(parents) < 3:
            parents.append(chance.choice([*tips.values()]))
        chance.shuffle(parents)
        snapshots.append(snapshot(f"s{number}", " ".join(dict.fromkeys(parents)), number))
        tips[line] = f"s{number}"
    names = ["main", *(f"b{line}" for line in range(1, lines))]
    refs = [branch(name, tips.get(line, "s0")) for line, name in enumerate(names)]
    stay = frozenset(one.id for one in snapshots if chance.random() < kept)
    return build(snapshots, refs), stay


@st.composite
def meshes(draw: st.DrawFn) -> tuple[History, frozenset[SnapshotId]]:
    """The same from a seed: what matters here is size, not that an example shrinks."""
    return mesh(
        random.Random(draw(st.integers(0, 2**32))),
        draw(st.integers(1, 12)),
        draw(st.integers(1, 150)),
        merges=draw(st.sampled_from([0.1, 0.4, 0.8])),
        kept=draw(st.sampled_from([0.05, 0.2, 0.5, 0.9])),
        origins=draw(st.booleans()),
    )

"""Random histories for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from reclaim.history import build
from reclaim.model import History, Ref
from tests.history.trees import branch, snapshot, tag

NAMES = ["main", "a", "b", "c"]


@st.composite
def histories(draw: st.DrawFn, most: int = 14) -> History:
    """Up to ``most`` snapshots with up to three parents, some origins, some refs of both kinds."""
    count = draw(st.integers(1, most))
    snapshots = []
    hours = 0
    for number in range(count):
        hours += draw(st.sampled_from([1, 5, 23, 24, 100]))
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

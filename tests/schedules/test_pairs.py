"""All pairs of operations, in every order of their steps that could make a difference.

Where that is too much for ``make test``, a bound is given here and stands in the golden file;
``make soak`` goes on to the end, and its ends stand in a golden file of their own. Some pairs of
runs have too many orders for that as well.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import ALL, Golden, explore_all, scheduler
from tests.schedules.operations import OPERATIONS
from tests.schedules.past import Pasts
from tests.support.soak import SOAK
from tests.support.state_graph import StateGraph

pytestmark = pytest.mark.repeats(first=8)

PAIRS = list(combinations_with_replacement(OPERATIONS, 2))
BOUNDS = {
    "commit + commit": 1,
    "commit + reap": 1,
    "merge + merge": 1,
    "merge + reap": 1,
    "revert + revert": 1,
    "revert + reap": 1,
    "reset + reap": 1,
    "reap + reap": 1,
    "reap + expire": 1,
}
"""The most preemptions in ``make test``, of pairs with hundreds of orders that differ."""
BOUNDS_OF_SOAK = {"expire + collect": 1, "expire + expire": 1, "expire + undo": 1}
"""The most preemptions in ``make soak``, of pairs of runs that take turns at one lock."""
RUNS_OF_LONG = 3
"""So many orders are tried in ``make test`` of a pair with very many."""
LONG = {
    *("copy of the dead + collect", "commit + collect", "merge + collect", "revert + collect"),
    *("reset + collect", "clean + collect", "reap + collect", "expire + collect"),
    *("collect + collect", "collect + undo", "expire + expire", "expire + undo"),
    *("commit + undo", "merge + undo", "revert + undo", "reap + undo", "undo + undo"),
}

ONE_END: dict[str, set[str]] = {
    "they work on different paths of the branch": {
        *("put + copy of the dead", "put + link", "delete + copy of the dead", "delete + link"),
        *("copy + copy of the dead", "copy + link", "copy of the dead + move"),
        *("copy of the dead + reset path", "copy of the dead + link", "move + link"),
        "reset path + link",
    },
    "they work on different branches, and a merge takes only what is committed": {
        *("put + merge", "put + revert", "delete + merge", "delete + revert", "copy + merge"),
        *("copy + revert", "copy of the dead + merge", "copy of the dead + revert", "move + merge"),
        *("move + revert", "merge + reset path", "merge + link", "revert + reset path"),
        *("revert + delete branch", "revert + link"),
    },
    "a cleaning removes only what nobody shows, and all of it whenever it comes": {
        *("put + clean", "delete + clean", "copy + clean", "copy of the dead + clean"),
        *("move + clean", "commit + clean", "reset path + clean", "reset + clean", "link + clean"),
        *("clean + clean", "clean + expire"),
    },
    "nothing here is old enough to expire but the dead commits, which only they are about": {
        *("put + expire", "delete + expire", "copy + expire", "copy of the dead + expire"),
        *("move + expire", "reset path + expire", "reset + expire", "delete branch + expire"),
        "link + expire",
    },
    "the lease is on a commit that the other does not touch": {
        *("delete + lease", "copy + lease", "copy of the dead + lease", "move + lease"),
        *("commit + lease", "merge + lease", "revert + lease", "reset + lease"),
        *("delete branch + lease", "expire + lease"),
    },
    "twice the same": {
        *("put + put", "copy + copy", "copy of the dead + copy of the dead", "reset + reset"),
        "lease + lease",
    },
    "what an undo brings back is of a branch that is gone, and none of the other's": {
        *("put + undo", "delete + undo", "copy + undo", "copy of the dead + undo", "move + undo"),
        *("reset + undo", "delete branch + undo", "undo + lease"),
    },
    "a run takes nothing of what is staged, wherever that goes": {
        *("copy + collect", "move + collect", "link + collect"),
    },
}
"""Why the end is the same in all orders, of pairs whose steps touch the same tables."""

MORE_RUNS = {"collect + collect": 8, "undo + undo": 8}
"""Long pairs of which the first few orders end in the same way."""


@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_a_pair(pair: tuple[str, str], pasts: Pasts, checks: Checks, golden: Golden) -> None:
    past = pasts.of(pair)
    name = " + ".join(pair)
    graph = StateGraph(scheduler(past, pair))
    part = name in LONG and not SOAK
    graph.preemptions = (BOUNDS_OF_SOAK if SOAK else BOUNDS).get(name)
    if not SOAK:
        graph.most = MORE_RUNS.get(name, RUNS_OF_LONG) if part else None
    explored = explore_all(graph, past, checks)
    assert graph.exhausted or part
    golden.compare(name, explored)
    alone = not graph.conflicting or any(name in pairs for pairs in ONE_END.values())
    assert (explored.different == 1) == alone, explored.ends


def test_every_pair_was_tried_to_the_end(golden: Golden) -> None:
    names = {" + ".join(pair) for pair in PAIRS}
    tried = {name for name in names if golden.of_tests.get(name, {}).get("preemptions") == ALL}
    assert golden.of_soaks.keys() - tried == names - tried - BOUNDS_OF_SOAK.keys()
    assert {record["preemptions"] for record in golden.of_soaks.values()} <= {ALL}

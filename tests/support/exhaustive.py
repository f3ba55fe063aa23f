"""The tests of ``make test``: of tests that repeat, the first cases; ``make test-all`` has all.

``@pytest.mark.exhaustive`` leaves a test to ``make test-all``. Of a function with several cases
``make test`` runs the first four; ``@pytest.mark.repeats(first=1)``, on a function or a module,
sets another number, and ``fast`` tests run all. Of the tests on real servers, which also run on
the embedded back end, it runs the first of each module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import pytest

EXHAUSTIVE = "exhaustive"
REPEATS = "repeats"
FAST = "fast"
CASES = 4
"""The first so many cases of a function run in ``make test``, unless a marker says otherwise."""
SERVER = "server"
SERVERS = "servers"
FIXTURES = frozenset({"postgres", "s3", "bucket", "reached"})


def mark_exhaustive(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that only ``make test-all`` runs."""
    cases: Counter[str] = Counter()
    on_servers: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        cases[function] += 1
        if cases[function] > most_cases(item):
            item.add_marker(EXHAUSTIVE)
        if needs_servers(item):
            item.add_marker(SERVERS)
        if is_on_servers(item):
            module = item.nodeid.partition("::")[0]
            on_servers[module] += 1
            if on_servers[module] > 1:
                item.add_marker(EXHAUSTIVE)


def most_cases(item: pytest.Item) -> float:
    """The number of cases of a test function in ``make test``."""
    marker = item.get_closest_marker(REPEATS)
    if marker is not None:
        return float(marker.kwargs["first"])
    if item.get_closest_marker(FAST) is not None or item.path.parent.name == "planted":
        return math.inf
    return CASES


def needs_servers(item: pytest.Item) -> bool:
    """Whether a test starts PostgreSQL or SeaweedFS."""
    return is_on_servers(item) or bool(FIXTURES & set(getattr(item, "fixturenames", ())))


def is_on_servers(item: pytest.Item) -> bool:
    """Whether a test runs on PostgreSQL and S3 as one of its back ends."""
    return isinstance(item, pytest.Function) and (
        hasattr(item, "callspec") and item.callspec.params.get("backend") == SERVER
    )

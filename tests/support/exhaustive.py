"""The tests of ``make test``: of tests that repeat, the first cases; ``make test-all`` has all.

``@pytest.mark.exhaustive`` leaves a test to ``make test-all``. On a function or a module,
``@pytest.mark.repeats(first=1)`` leaves all cases of each function but the first to it. Tests on
real servers, which also run on the embedded back end, are left to it but for the first of each
module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

EXHAUSTIVE = "exhaustive"
REPEATS = "repeats"
SERVER = "server"
SERVERS = "servers"
FIXTURES = frozenset({"postgres", "s3", "bucket", "reached"})


def mark_exhaustive(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that only ``make test-all`` runs."""
    cases: Counter[str] = Counter()
    on_servers: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        marker = item.get_closest_marker(REPEATS)
        if marker is not None:
            cases[function] += 1
            if cases[function] > marker.kwargs["first"]:
                item.add_marker(EXHAUSTIVE)
        if needs_servers(item):
            item.add_marker(SERVERS)
        if is_on_servers(item):
            module = item.nodeid.partition("::")[0]
            on_servers[module] += 1
            if on_servers[module] > 1:
                item.add_marker(EXHAUSTIVE)


def needs_servers(item: pytest.Item) -> bool:
    """Whether a test starts PostgreSQL or SeaweedFS."""
    return is_on_servers(item) or bool(FIXTURES & set(getattr(item, "fixturenames", ())))


def is_on_servers(item: pytest.Item) -> bool:
    """Whether a test runs on PostgreSQL and S3 as one of its back ends."""
    return isinstance(item, pytest.Function) and (
        hasattr(item, "callspec") and item.callspec.params.get("backend") == SERVER
    )

"""What is held, and ways to hold it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from reclaim.catalog import RefReader, Repository

HOUR = timedelta(hours=1)


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something comes true; what is garbage is given back in the background."""
    deadline = time.monotonic() + 20
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def held(repo: Repository) -> list[str]:
    return [lease.snapshot for lease, _ in repo.leases()]


@contextmanager
def opened_at(repo: Repository, ref: str) -> Iterator[RefReader]:
    """A reader that has read something."""
    reader = repo.at(ref)
    reader.get("a")
    yield reader


OPENINGS = {"lease": Repository.lease, "at": opened_at}

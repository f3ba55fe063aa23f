"""Runs as an older version made them, whose traces can still be there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Observation


def _no_parents(_store: CatalogStore, seen: Observation, **_: Any) -> Observation:
    return seen


@contextmanager
def parentless() -> Iterator[None]:
    """Runs that do not spare the parents of commits that another run has in quarantine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogStore, "keep_parents", _no_parents)
        yield


@contextmanager
def heedless() -> Iterator[None]:
    """Runs that spare nothing for the sake of commits that another run has in quarantine."""
    with parentless(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogStore, "promised", lambda *_: {})
        yield

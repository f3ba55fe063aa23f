"""What a process does thousands of times in schedules, done once: it changes no result.

- A container is decoded once for the same bytes.
- What was loaded is not searched for garbage again and again, and the rest not as often.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import patch

from reclaim.catalog.content import ranges

SEARCHED_AFTER = 20_000
"""New objects until garbage is searched for."""


@contextmanager
def saving() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(SEARCHED_AFTER, *before[1:])
    try:
        with patch.object(ranges, "_decode", lru_cache(maxsize=2_000)(ranges._decode)):
            yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

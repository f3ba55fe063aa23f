"""The ability of stores that know what can be wrong with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from reclaim.stores.findings import Advance, Finding


class Examines(ABC):
    """A store that knows what can be wrong with it; whatever kind it is, ``doctor`` asks it."""

    @abstractmethod
    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        """Findings worth telling. ``deep`` looks for all live data.

        With ``advance``, which is told of each object, the bytes of all live data are read as well.
        """

"""Ability of stores to examine themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from reclaim.stores.findings import Advance, Finding


class Examines(ABC):
    """A store with checks of its own, called by ``doctor``."""

    @abstractmethod
    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        """Findings worth reporting. ``deep`` checks the presence of all live data.

        With ``advance``, the bytes of all live data are read as well; it is called for each object.
        """

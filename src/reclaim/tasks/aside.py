"""Setting objects aside instead of deleting them, and bringing them back.

What is set aside keeps its address below a folder of the run, so that the folder alone tells
where everything belongs. Each step can be done again: an object that is not where it is taken
from has been taken before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from reclaim.errors import Conflict, NotFound, OwnedAddress
from reclaim.storage import Storage

QUARANTINED, RESTORED = "quarantined", "restored"


@dataclass(frozen=True, slots=True)
class Aside:
    """Where a run sets objects of a store aside: from below ``prefix`` to below ``folder``."""

    prefix: str
    folder: str

    def of(self, address: str) -> str:
        """Where an object of the store is set aside."""
        if not address.startswith(self.prefix) or address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} cannot be set aside below {self.folder}")
        return self.folder + address[len(self.prefix) :]

    def home(self, address: str) -> str:
        """Where an object that was set aside belongs."""
        if not address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} was not set aside below {self.folder}")
        return self.prefix + address[len(self.folder) :]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Moves objects of the store aside."""

    aside: Aside

    @property
    def outcome(self) -> str:
        return QUARANTINED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        each(storage, sizes, self.one)

    def one(self, storage: Storage, address: str, size: int) -> None:
        try:
            storage.move(address, self.aside.of(address), size=size)
        except NotFound:
            return


@dataclass(frozen=True, slots=True)
class BringBack:
    """Moves what was set aside to where it was, as if it were written now."""

    aside: Aside

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, sizes: Mapping[str, int]) -> None:
        each(storage, sizes, self.one)

    def one(self, storage: Storage, address: str, size: int) -> None:
        home = self.aside.home(address)
        try:
            there = storage.head(home).size
        except NotFound:
            there = None
        if there is None:
            storage.move(address, home, size=size, fresh=True)
        elif there == size:
            # It was brought back before, or made again. What is in its place stays.
            storage.delete(address)
        else:
            raise Conflict(
                f"{home} has {there} bytes now, and {size} were set aside; both were left"
            )


def each(
    storage: Storage, sizes: Mapping[str, int], work: Callable[[Storage, str, int], None]
) -> None:
    """Do something to each object, with as many requests on the way as the storage likes."""
    if storage.at_once == 1:
        for address, size in sizes.items():
            work(storage, address, size)
        return
    with ThreadPoolExecutor(storage.at_once) as pool:
        for _ in pool.map(lambda item: work(storage, *item), sizes.items()):
            pass

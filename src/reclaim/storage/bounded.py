"""Bounded listings: the keys of a range, from a storage that lists from a key on.

A range ends at the first key beyond it, if the storage lists keys in order. So the order is
checked, and an unordered storage is refused: keys it leaves out could count as missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from reclaim.errors import Refused
from reclaim.model import StoredObject
from reclaim.storage.key_range import KeyRange


class Bounded:
    """The keys of a range while they are listed; ``ended`` once there can be no more.

    Only names directly in the folder are compared: some storages list the contents of a subfolder
    at the position of its name.
    """

    def __init__(self, keys: KeyRange) -> None:
        self._keys = keys
        self._folder = f"{keys.prefix}/" if keys.prefix else ""
        self._last = ""
        self.ended = False

    @property
    def offset(self) -> str | None:
        """The key after which the storage lists: just before the range begins.

        Otherwise a storage listing folder by folder would leave out a folder named like the
        boundary, whose keys all come after it.
        """
        head, last = self._keys.after[:-1], self._keys.after[-1:]
        if not last:
            return None
        before = "." if last == "0" else chr(ord(last) - 1)
        return f"{head}{before}~~~~" if before > " " else None

    def has(self, key: str) -> bool:
        """Return whether a listed key is in the range."""
        if not self._keys.until:
            return key > self._keys.after
        if "/" not in key[len(self._folder) :]:
            self._follow(key)
            self.ended = self.ended or key > self._keys.until
        return key in self._keys

    def until_ended(self, listed: Iterator[StoredObject]) -> Iterator[StoredObject]:
        for stored in listed:
            if self.has(stored.address):
                yield stored
            if self.ended:
                return

    def only(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch in the range."""
        keys, address = self._keys, batch.column("address")
        if not batch.num_rows or not (keys.after or keys.until):
            return batch

        import pyarrow.compute as pc

        inside = pc.greater(address, keys.after)
        if keys.until:
            inside = pc.and_(inside, pc.less_equal(address, keys.until))
            names = self._direct(address)
            if len(names) > 1 and not pc.all(pc.greater(names[1:], names[:-1])).as_py():
                raise self._refusal()
            if len(names):
                self._follow(names[0].as_py())
                self._last = names[-1].as_py()
                self.ended = self._last > keys.until
        return batch if pc.all(inside).as_py() else batch.filter(inside)

    def _direct(self, address: pa.Array) -> pa.Array:
        """Return the addresses directly in the folder."""
        import pyarrow.compute as pc

        below = pc.utf8_slice_codeunits(address, len(self._folder))
        return address.filter(pc.less(pc.find_substring(below, "/"), 0))

    def _follow(self, key: str) -> None:
        if key <= self._last:
            raise self._refusal()
        self._last = key

    def _refusal(self) -> Refused:
        return Refused(
            f"the storage does not list the keys of {self._keys.prefix} in order",
            hint="a listing shared between tasks could miss keys; nothing was deleted",
        )

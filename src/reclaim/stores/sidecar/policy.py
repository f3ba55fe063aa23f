"""Retention policy stored beside a store, in a file of its own."""

from __future__ import annotations

from reclaim.errors import NotFound
from reclaim.storage import Storage
from reclaim.stores.sidecar.files import LARGEST, damaged, write_file

FILE = "policy.json"


class PolicyFile:
    """File with the policy of a store. Parsing is in ``policy.stored``."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._address = f"{prefix}{FILE}"

    def read(self) -> str | None:
        try:
            size = self._storage.head(self._address).size
            data = self._storage.get(self._address) if size <= LARGEST else b""
        except NotFound:
            return None
        if size > LARGEST:
            raise self._damaged(f"it has {size} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._damaged("it is not text") from error

    def write(self, document: str | None) -> None:
        if document is None:
            self._storage.delete(self._address)
        else:
            write_file(self._storage, self._address, document.encode())

    def _damaged(self, why: str) -> Exception:
        hint = "set it again with `reclaim policy set`, or remove it with `reclaim policy unset`"
        return damaged(self._storage, self._address, "the stored policy", why, hint=hint)

"""A lifecycle run as far as claims go, for tests that need no plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reclaim.catalog import Repository
from reclaim.catalog.collection import locks
from reclaim.catalog.collection.condemn import claimed_addresses
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.model import Lease, Ref, SnapshotId

RULE = "rule old-logs: logs/ after 30 days"


class Claimer:
    """The holder of the lock of a repository, who claims for the run of the lock."""

    def __init__(self, repo: Repository, lock: RepositoryLock) -> None:
        self.workspace = repo._workspace
        self.repo = repo
        self.lock = lock

    def claim(self, *addresses: str) -> int:
        return claimed_addresses.claim(
            self.workspace, self.lock, [(address, RULE) for address in addresses]
        )

    def close(self) -> None:
        claimed_addresses.close(self.workspace, self.lock)

    def drop(self, *addresses: str) -> int:
        return claimed_addresses.drop(self.workspace, self.lock, addresses)

    def drop_staged(self) -> int:
        return claimed_addresses.drop_staged(self.workspace, self.lock)

    def seen(self) -> tuple[list[Ref], list[Lease]]:
        """Refs and leases as they are now."""
        named = [*self.repo.branches(), *self.repo.tags()]
        refs = [Ref(ref.name, ref.kind, SnapshotId(ref.commit)) for ref in named]
        return refs, [lease for lease, valid in self.repo.leases() if valid]

    def promote(self, seen: tuple[list[Ref], list[Lease]] | None = None) -> bool:
        refs, leases = seen or self.seen()
        return claimed_addresses.promote(
            self.workspace, self.lock, refs=refs, leases=leases, rules=None
        )

    def claimed(self) -> int:
        return claimed_addresses.count(self.workspace, self.lock.run_id)

    def take(self, *addresses: str) -> None:
        """All of it at once: the addresses are gone afterwards, and so are their bytes."""
        assert self.claim(*addresses) == len(addresses)
        self.close()
        assert self.promote()
        for address in addresses:
            self.workspace.storage.delete(address)


@contextmanager
def claiming(repo: Repository, run_id: str = "run-7") -> Iterator[Claimer]:
    with locks.hold(repo._workspace, run_id) as lock:
        yield Claimer(repo, lock)

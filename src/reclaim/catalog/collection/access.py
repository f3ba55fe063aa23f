"""A repository as a collector reaches it, deleted ones included."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reclaim.catalog import addresses
from reclaim.catalog.workspace import Workspace
from reclaim.clock import Clock
from reclaim.storage import Storage


@dataclass(frozen=True, slots=True)
class RepositoryAccess:
    """Access to a repository, as the functions of this package need it."""

    workspace: Workspace
    name: str
    default_branch: str
    created_at: datetime
    deleted: bool

    @property
    def uid(self) -> str:
        return self.workspace.repo_uid

    @property
    def storage(self) -> Storage:
        return self.workspace.storage

    @property
    def clock(self) -> Clock:
        return self.workspace.clock

    @property
    def prefix(self) -> str:
        """Everything of the repository lies below this."""
        return addresses.repository(self.uid)

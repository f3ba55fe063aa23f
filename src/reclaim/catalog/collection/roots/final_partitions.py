"""Final partitions: those into which nobody can write any more, so that they need no second look.

A closed partition takes no new references, but a writer that stalls may still put bytes there,
which nothing will ever refer to. So it counts as final only when it has been closed for longer than
every margin, and no upload into it can be linked.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import (
    PartitionState,
    UploadState,
    partitions,
    upload_tokens,
)
from reclaim.clock import MICROSECOND
from reclaim.safety import SAFETY

LONGEST = max(SAFETY.objects, SAFETY.work, SAFETY.upload_length)


def final_partitions(connection: Connection, repo_uid: str, now: int) -> frozenset[str]:
    """The final partitions of a repository."""
    pending = select(upload_tokens.c.address).where(
        upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state == UploadState.PENDING
    )
    # Whatever their time says: only a state ends an upload.
    uploading = {address.split("/")[-2] for address in connection.execute(pending).scalars()}
    closed = select(partitions.c.id).where(
        partitions.c.repo_uid == repo_uid,
        partitions.c.state == PartitionState.CLOSED,
        partitions.c.closed_at < now - LONGEST // MICROSECOND,
    )
    return frozenset(connection.execute(closed).scalars()) - uploading

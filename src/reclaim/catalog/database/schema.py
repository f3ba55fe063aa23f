"""Tables of the catalog.

Times are whole microseconds since 1970. Compared or sorted text uses byte order on every database,
because ranges are sorted in byte order. States change in one direction only:

    staging token   open → sealed → committed, or → dropped
    upload token    pending → used, or → expired
    partition       open → closed
    ledger row      live → condemned → deleted
    claim           provisional → promoted, or → released; undone, promoted → released
    commit          live ⇄ provisional → condemned → collected, or → quarantined → collected
    run             started → stopped, or → partial, or → done; applied again, onwards
                    then → undone, or → purged

Only an undo reverses a state: it makes condemned and quarantined commits live.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex

POSTGRESQL_WHERE = "postgresql_where"
"""Condition of a partial index on PostgreSQL, in the index's ``info``. As an index option it would
make SQLAlchemy load its whole PostgreSQL dialect for every catalog.
"""

metadata = MetaData()

Word = String().with_variant(Text(collation="C"), "postgresql")
Serial = BigInteger().with_variant(Integer, "sqlite")


class TokenState(StrEnum):
    OPEN = "open"
    SEALED = "sealed"
    COMMITTED = "committed"
    DROPPED = "dropped"


class UploadState(StrEnum):
    PENDING = "pending"
    USED = "used"
    EXPIRED = "expired"


class PartitionState(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class LedgerState(StrEnum):
    LIVE = "live"
    CONDEMNED = "condemned"
    # Bytes deleted online; the row stays for a day to explain this to readers.
    DELETED = "deleted"


class ClaimState(StrEnum):
    # Made by an undecided run. If the run died, the next owner of the lock
    # releases the claim.
    PROVISIONAL = "provisional"
    # References to its addresses are refused as gone.
    PROMOTED = "promoted"
    # Void: its addresses are removed in batches, then the claim itself.
    RELEASED = "released"


class CommitState(StrEnum):
    LIVE = "live"
    # Marked by an undecided run. If the run died, the next owner of the lock
    # removes the mark.
    PROVISIONAL = "provisional"
    CONDEMNED = "condemned"
    # Condemned, with its objects in quarantine: an undo can restore it.
    QUARANTINED = "quarantined"
    # The bytes are gone; only the id, the run and the reason remain.
    COLLECTED = "collected"


catalog_info = Table(
    "catalog_info",
    metadata,
    Column("key", Word, primary_key=True),
    Column("value", Text, nullable=False),
)

repositories = Table(
    "repositories",
    metadata,
    Column("uid", Word, primary_key=True),
    Column("name", Word, nullable=False),
    Column("default_branch", Word, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # Counts operations writing to the storage, which holds the same number (see epochs.py).
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("epoch_writer", Word, nullable=False, server_default=""),
    # Changes with every edit of the history, so readers of several pages detect edits.
    Column("history_version", BigInteger, nullable=False, server_default="0"),
)
Index(
    "repositories_name",
    repositories.c.name,
    unique=True,
    sqlite_where=text("deleted_at IS NULL"),
    info={POSTGRESQL_WHERE: "deleted_at IS NULL"},
)

epoch_writers = Table(
    "epoch_writers",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("writer", Word, primary_key=True),
    # The last epoch counted by a partition or a run.
    Column("epoch", BigInteger, nullable=False),
)

branches = Table(
    "branches",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("name", Word, primary_key=True),
    Column("uid", Word, nullable=False, unique=True),
    Column("head", Word, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

tags = Table(
    "tags",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("name", Word, primary_key=True),
    Column("commit_id", Word, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

commits = Table(
    "commits",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("id", Word, primary_key=True),
    Column("parents", Text, nullable=False),
    Column("metarange", Word, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("committer", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("marked", Boolean, nullable=False, server_default=text("false")),
    Column("state", Word, nullable=False, server_default=CommitState.LIVE),
    Column("run_id", Word),
    Column("rule", Text),
    Index("commits_by_time", "repo_uid", "written_at"),
)
Index(
    "commits_not_live",
    commits.c.repo_uid,
    commits.c.state,
    sqlite_where=text("state <> 'live'"),
    info={POSTGRESQL_WHERE: "state <> 'live'"},
)

staging_tokens = Table(
    "staging_tokens",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("repo_uid", Word, nullable=False),
    Column("branch_uid", Word, nullable=False),
    Column("state", Word, nullable=False),
    Column("version", Integer, nullable=False, server_default="0"),
    # The commit with the changes of the token, kept after its rows are gone.
    Column("commit_id", Word),
    # The partition of the commit in progress, which sealed the token.
    Column("partition_id", Word),
    Column("cleaned", Boolean, nullable=False, server_default=text("false")),
    Index("staging_tokens_by_branch", "branch_uid", "state"),
    Index("staging_tokens_by_commit", "commit_id"),
    sqlite_autoincrement=True,
)
Index(
    "staging_tokens_to_clean",
    staging_tokens.c.repo_uid,
    staging_tokens.c.state,
    sqlite_where=text("cleaned = 0"),
    info={POSTGRESQL_WHERE: "NOT cleaned"},
)

staged_entries = Table(
    "staged_entries",
    metadata,
    Column("token_id", BigInteger, primary_key=True, autoincrement=False),
    Column("path", Word, primary_key=True),
    # NULL is a tombstone: the path is deleted.
    Column("address", Word),
    # True if the address is below the repository's own prefix, where Reclaim may collect it.
    Column("owned", Boolean, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    sqlite_with_rowid=False,
)
Index(
    "staged_entries_by_address",
    staged_entries.c.address,
    # Spelled as SQLAlchemy spells it in queries: SQLite uses the index only then.
    sqlite_where=text("owned = 1"),
    info={POSTGRESQL_WHERE: "owned"},
)

ledger = Table(
    "ledger",
    metadata,
    Column("address", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("state", Word, nullable=False, server_default=LedgerState.LIVE),
    Column("created_at", BigInteger, nullable=False),
    Column("condemned_at", BigInteger),
    Column("run_id", Word),
    Column("rule", Text),
    # Path of the first staging; plans show it for objects of no commit.
    Column("path", Text),
    # Null in rows of older versions, or if the upload may not have happened.
    Column("size", BigInteger),
    sqlite_with_rowid=False,
)
Index(
    "ledger_condemned",
    ledger.c.repo_uid,
    ledger.c.condemned_at,
    sqlite_where=text("state = 'condemned'"),
    info={POSTGRESQL_WHERE: "state = 'condemned'"},
)

claims = Table(
    "claims",
    metadata,
    # A run's claim to addresses referenced by live commits. A single row holds the state of all
    # addresses, so promoting takes the same time whatever their number.
    Column("run_id", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("state", Word, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Index("claims_by_repository", "repo_uid", "state"),
)

claimed_addresses = Table(
    "claimed_addresses",
    metadata,
    # No two runs claim the same address.
    Column("address", Word, primary_key=True),
    Column("run_id", Word, nullable=False),
    Column("rule", Text, nullable=False),
    Index("claimed_addresses_by_run", "run_id", "address"),
    sqlite_with_rowid=False,
)

upload_tokens = Table(
    "upload_tokens",
    metadata,
    Column("id", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("branch_uid", Word, nullable=False),
    Column("path", Word, nullable=False),
    Column("address", Word, nullable=False),
    Column("state", Word, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("upload_tokens_by_state", "repo_uid", "state"),
)

partitions = Table(
    "partitions",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("id", Word, primary_key=True),
    Column("instance", Word, nullable=False),
    Column("state", Word, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Index("partitions_by_state", "repo_uid", "state"),
)

leases = Table(
    "leases",
    metadata,
    Column("id", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("commit_id", Word, nullable=False),
    Column("holder", Text, nullable=False),
    Column("refreshed_at", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    UniqueConstraint("repo_uid", "commit_id", "holder"),
)

locks = Table(
    "locks",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("owner", Word, nullable=False),
    Column("run_id", Word, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    # The process holding the lock, in the format of ``process.Process``.
    Column("process", Text),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    # JSON; see ``reclaim.run_record``.
    Column("record", Text, nullable=False),
    Index("runs_by_repository", "repo_uid", "started_at"),
)

plans = Table(
    "plans",
    metadata,
    # Hash of a plan at its creation: others may be able to write its files.
    Column("run_id", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Column("digest", Word, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Index("plans_by_time", "made_at"),
)

policies = Table(
    "policies",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    # A document of ``policy.stored``.
    Column("document", Text, nullable=False),
)

lifecycle_policies = Table(
    "lifecycle_policies",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    # A document of ``policy.lifecycle.stored``.
    Column("document", Text, nullable=False),
)

repository_settings = Table(
    "repository_settings",
    metadata,
    Column("repo_uid", Word, primary_key=True),
    Column("name", Word, primary_key=True),
    Column("value", Text, nullable=False),
)

protected_paths = Table(
    "protected_paths",
    metadata,
    # Former paths of uncommitted objects that no other row records any more, if they
    # match the setting `protect`.
    Column("address", Word, primary_key=True),
    Column("path", Word, primary_key=True),
    Column("repo_uid", Word, nullable=False),
    Index("protected_paths_by_repository", "repo_uid"),
    sqlite_with_rowid=False,
)

reaped = Table(
    "reaped",
    metadata,
    # Totals of the reaper's deletions in a repository.
    Column("repo_uid", Word, primary_key=True),
    Column("objects", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
)

run_edits = Table(
    "run_edits",
    metadata,
    Column("run_id", Word, primary_key=True),
    Column("commit_id", Word, primary_key=True),
    Column("old_parents", Text, nullable=False),
    Column("new_parents", Text, nullable=False),
    Column("was_marked", Boolean, nullable=False),
)

run_refs = Table(
    "run_refs",
    metadata,
    Column("run_id", Word, primary_key=True),
    Column("kind", Word, primary_key=True),
    Column("name", Word, primary_key=True),
    Column("commit_id", Word, nullable=False),
)


@compiles(CreateIndex, "postgresql")
def _create_index(create: CreateIndex, compiler: Any, **options: Any) -> str:
    index = create.element
    if condition := index.info.get(POSTGRESQL_WHERE):
        index.dialect_kwargs[POSTGRESQL_WHERE] = text(condition)
    return str(compiler.visit_create_index(create, **options))

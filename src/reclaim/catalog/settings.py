"""Repository settings. They outlive a deleted repository, whose remains are still collected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select

from reclaim.catalog.database.schema import (
    ledger,
    repositories,
    repository_settings,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.refs import refs
from reclaim.catalog.staging.protected_paths import BETWEEN, PROTECT
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, UnknownVersion
from reclaim.globs import check_globs

ON, OFF = "on", "off"
MOST_GLOBS = 100


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """Settings of a repository; defaults apply to all others."""

    hard_delete: bool = False
    """Whether the reaper deletes uncommitted bytes soon after the last reference is gone; otherwise
    an offline run deletes them.
    """

    protect: tuple[str, ...] = ()
    """Globs of paths and addresses protected from every run."""

    def words(self) -> dict[str, str]:
        """Written form of each setting: name → value."""
        return {
            "hard_delete": ON if self.hard_delete else OFF,
            "protect": BETWEEN.join(self.protect),
        }


def names() -> list[str]:
    """Names of all settings."""
    return [field.name for field in fields(RepositorySettings)]


def parse(changes: Mapping[str, str]) -> dict[str, Any]:
    """Parse settings as users write them."""
    parsed: dict[str, Any] = {}
    for name, word in changes.items():
        if name not in names():
            raise InvalidInput(
                f"unknown setting {name!r}", hint=f"settings are: {', '.join(names())}"
            )
        parsed[name] = _parse_globs(word) if name == PROTECT else _parse_switch(name, word)
    return parsed


def _parse_switch(name: str, word: str) -> bool:
    if word not in (ON, OFF):
        raise InvalidInput(f"{name} cannot be {word!r}", hint=f"use {ON} or {OFF}")
    return word == ON


def _parse_globs(word: str) -> tuple[str, ...]:
    """Parse globs separated by commas; an empty word means no globs."""
    globs = tuple(dict.fromkeys(glob.strip() for glob in word.split(BETWEEN))) if word else ()
    cut = any(glob.count("[") != glob.count("]") or "{" in glob for glob in globs)
    if "" in globs or cut or len(globs) > MOST_GLOBS:
        raise InvalidInput(
            f"protect cannot be {word!r}",
            hint=f"use at most {MOST_GLOBS} globs, separated by commas and without commas in them, "
            "such as protect='raw/*,*.csv'; * also matches /",
        )
    return globs


def read_settings(connection: Connection, repo_uid: str) -> RepositorySettings:
    """Return the settings of a repository, deleted or not."""
    query = select(repository_settings).where(repository_settings.c.repo_uid == repo_uid)
    stored = {row.name: row.value for row in connection.execute(query)}
    return _decode(stored)


def change_settings(workspace: Workspace, changes: Mapping[str, Any]) -> RepositorySettings:
    """Change some settings of a repository; return all settings."""
    uid = workspace.repo_uid
    # In the form users write, or as a tuple from a program.
    _parse_globs(BETWEEN.join(globs := check_globs(changes.get(PROTECT, ()), named=PROTECT)))
    if any(BETWEEN in glob for glob in globs):
        raise InvalidInput(f"a glob of {PROTECT} cannot contain {BETWEEN!r}")

    def work(connection: Connection) -> RepositorySettings:
        # Serialized: two concurrent changes would both find no row to replace.
        refs.check_repository(connection, uid, lock=True)
        settings = replace(read_settings(connection, uid), **changes)
        own_rows = repository_settings.c.repo_uid == uid
        connection.execute(delete(repository_settings).where(own_rows))
        rows = [
            {"repo_uid": uid, "name": name, "value": word}
            for name, word in settings.words().items()
            # An older Reclaim refuses unknown settings, so defaults are not stored.
            if word
        ]
        connection.execute(insert(repository_settings), rows)
        return settings

    return workspace.database.transact(work)


def with_hard_delete(database: Database) -> list[str]:
    """Return the repositories whose bytes the reaper may delete.

    Deleted repositories are included if some bytes are left.
    """
    uid = repository_settings.c.repo_uid
    has_remains = or_(
        select(ledger.c.address).where(ledger.c.repo_uid == uid).exists(),
        select(upload_tokens.c.id).where(upload_tokens.c.repo_uid == uid).exists(),
        select(staging_tokens.c.id)
        .where(staging_tokens.c.repo_uid == uid, ~staging_tokens.c.cleaned)
        .exists(),
    )
    query = (
        select(uid)
        .join(repositories, repositories.c.uid == uid)
        .where(
            repository_settings.c.name == "hard_delete",
            repository_settings.c.value == ON,
            or_(repositories.c.deleted_at.is_(None), has_remains),
        )
        .order_by(uid)
    )
    with database.read() as connection:
        return list(connection.execute(query).scalars())


def _decode(stored: Mapping[str, str]) -> RepositorySettings:
    try:
        return RepositorySettings(**parse(stored))
    except InvalidInput as error:
        raise UnknownVersion(
            f"the repository has settings unknown to this version of Reclaim: {dict(stored)}",
            hint="upgrade Reclaim",
        ) from error

"""Settings of a repository, stored with it. They outlive it: what it left is still collected."""

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
    """The settings of a repository that differ from the defaults."""

    hard_delete: bool = False
    """Whether the reaper deletes bytes that were never committed, soon after nothing refers to
    them; otherwise an offline run does."""

    protect: tuple[str, ...] = ()
    """Globs of paths and addresses of which no run takes anything."""

    def words(self) -> dict[str, str]:
        """Each setting as it is written: name → value."""
        return {
            "hard_delete": ON if self.hard_delete else OFF,
            "protect": BETWEEN.join(self.protect),
        }


def names() -> list[str]:
    """The names of all settings."""
    return [field.name for field in fields(RepositorySettings)]


def parse(changes: Mapping[str, str]) -> dict[str, Any]:
    """Values of settings, as people write them."""
    parsed: dict[str, Any] = {}
    for name, word in changes.items():
        if name not in names():
            raise InvalidInput(
                f"there is no setting {name!r}", hint=f"settings are: {', '.join(names())}"
            )
        parsed[name] = _parse_globs(word) if name == PROTECT else _parse_switch(name, word)
    return parsed


def _parse_switch(name: str, word: str) -> bool:
    if word not in (ON, OFF):
        raise InvalidInput(f"{name} cannot be {word!r}", hint=f"say {ON} or {OFF}")
    return word == ON


def _parse_globs(word: str) -> tuple[str, ...]:
    """Globs with commas between them; none at all for an empty word."""
    globs = tuple(dict.fromkeys(glob.strip() for glob in word.split(BETWEEN))) if word else ()
    cut = any(glob.count("[") != glob.count("]") or "{" in glob for glob in globs)
    if "" in globs or cut or len(globs) > MOST_GLOBS:
        raise InvalidInput(
            f"protect cannot be {word!r}",
            hint=f"write at most {MOST_GLOBS} globs with commas between them, and none in them, "
            "such as protect='raw/*,*.csv'; * also stands for /",
        )
    return globs


def read_settings(connection: Connection, repo_uid: str) -> RepositorySettings:
    """The settings of a repository, deleted ones included."""
    query = select(repository_settings).where(repository_settings.c.repo_uid == repo_uid)
    stored = {row.name: row.value for row in connection.execute(query)}
    return _decode(stored)


def change_settings(workspace: Workspace, changes: Mapping[str, Any]) -> RepositorySettings:
    """Change some settings of a repository; returns all of them."""
    uid = workspace.repo_uid
    # As a person writes them, or as a program gives them.
    _parse_globs(BETWEEN.join(globs := check_globs(changes.get(PROTECT, ()), named=PROTECT)))
    if any(BETWEEN in glob for glob in globs):
        raise InvalidInput(f"a glob of {PROTECT} has no {BETWEEN!r} in it")

    def work(connection: Connection) -> RepositorySettings:
        # One after the other: two at once would both find no row to replace.
        refs.check_repository(connection, uid, lock=True)
        settings = replace(read_settings(connection, uid), **changes)
        mine = repository_settings.c.repo_uid == uid
        connection.execute(delete(repository_settings).where(mine))
        rows = [
            {"repo_uid": uid, "name": name, "value": word}
            for name, word in settings.words().items()
            # An older Reclaim refuses settings that it does not know, so only those that are set.
            if word
        ]
        connection.execute(insert(repository_settings), rows)
        return settings

    return workspace.database.transact(work)


def with_hard_delete(database: Database) -> list[str]:
    """The repositories whose bytes the reaper may delete; of deleted ones, where some are left."""
    uid = repository_settings.c.repo_uid
    left = or_(
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
            or_(repositories.c.deleted_at.is_(None), left),
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
            f"the repository has settings that this Reclaim does not know: {dict(stored)}",
            hint="upgrade Reclaim",
        ) from error

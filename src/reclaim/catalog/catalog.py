"""Catalog: a database and a storage holding versioned repositories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, Row, Select, delete, insert, inspect, select, update

from reclaim.catalog import addresses, names, root_marker
from reclaim.catalog.collection.clones.homes import REGISTERED, Home
from reclaim.catalog.content.tree import ContainerReader
from reclaim.catalog.database import migrations
from reclaim.catalog.database.locations import database_url
from reclaim.catalog.database.schema import (
    TokenState,
    branches,
    catalog_info,
    metadata,
    repositories,
    runs,
    staging_tokens,
    tags,
)
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.location import DEFAULT_CATALOG
from reclaim.catalog.reaping.background import BackgroundReaper
from reclaim.catalog.refs import refs
from reclaim.catalog.refs.commits import Commit, save
from reclaim.catalog.refs.leases import CommitLeases
from reclaim.catalog.repository import Repository
from reclaim.catalog.staging import cleaner
from reclaim.catalog.staging.cleaner import Cleaned
from reclaim.catalog.staging.partitions import Partitions
from reclaim.catalog.workspace import Externals, Workspace
from reclaim.clock import Clock, SystemClock, from_micros, to_micros
from reclaim.errors import AlreadyExists, InvalidInput, NotFound, ReclaimError, Refused
from reclaim.ids import new_uid
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY
from reclaim.storage import ObjectStorage, Storage, make_folder
from reclaim.storage.clocks import check_clock
from reclaim.urls import normalize

if TYPE_CHECKING:
    from reclaim.catalog.reaping.backlog import Backlog
    from reclaim.catalog.reaping.reaper import Reaped

STORAGE_FOLDER = "objects"
_BESIDE = "beside the database"

WrapStorage = Callable[[Storage], Storage]


@dataclass(frozen=True, slots=True)
class RepositoryInfo:
    """Repository, as shown in a listing."""

    name: str
    uid: str
    default_branch: str
    created_at: datetime


class Catalog:
    """Opened catalog. Use it in a ``with`` block, or call ``close`` when done.

        with Catalog.open(".reclaim") as catalog:
            repo = catalog.create_repository("sales")
            repo.branch("main").put("2026/orders.csv", b"...")
            repo.branch("main").commit("First orders")

    A catalog can be used from several threads, and several processes can open the same catalog.
    """

    def __init__(self, database: Database, storage: Storage, clock: Clock, home: Home) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock
        self.home = home
        self._partitions = Partitions(database, storage, clock, home)
        self._leases = CommitLeases(database, clock, self._partitions.instance)
        self._containers = ContainerReader(storage)
        self._externals = Externals()
        self._reaper = BackgroundReaper(database, storage, clock, home)
        self._reaping = Renewal(self._reaper, "the reaper of this process")

    @classmethod
    def init(
        cls,
        location: str | Path = DEFAULT_CATALOG,
        *,
        storage: str | None = None,
        clock: Clock | None = None,
        wrap_storage: WrapStorage = lambda storage: storage,
    ) -> Catalog:
        """Create a catalog and open it.

        ``location`` is a folder (for SQLite and a folder of objects), a ``sqlite:///`` file or a
        ``postgresql://`` URL. ``storage`` is a folder or a URL, and required unless the location is
        a folder.
        """
        url = database_url(location)
        if storage is None and "://" in str(location):
            raise InvalidInput(
                "a catalog in a database needs a storage location",
                hint="pass --storage, such as s3://bucket/prefix",
            )
        if url.startswith("sqlite:///"):
            make_folder(Path(url.removeprefix("sqlite:///")).parent, private=True)
        storage_url = normalize(storage or str(Path(location) / STORAGE_FOLDER))
        objects = wrap_storage(ObjectStorage.open(storage_url, create=True))
        database = Database.open(url, create=True)
        uid = new_uid()

        def create(connection: Connection) -> None:
            database.check_encoding(connection)
            _refuse_existing(connection, database)
            migrations.create(connection)
            rows = {"uid": uid, "storage": storage_url if storage else _BESIDE}
            connection.execute(
                insert(catalog_info), [{"key": k, "value": v} for k, v in rows.items()]
            )
            # Last, so a failure to claim the storage leaves no catalog behind.
            root_marker.claim(objects, uid)
            home.register_in(connection)

        home = Home(database, objects, uid, registered=False)
        try:
            database.transact(create)
        except BaseException:
            database.close()
            root_marker.abandon(objects, uid)
            raise
        return cls._at_work(database, objects, clock, home)

    @classmethod
    def open(
        cls,
        location: str | Path = DEFAULT_CATALOG,
        *,
        clock: Clock | None = None,
        wrap_storage: WrapStorage = lambda storage: storage,
    ) -> Catalog:
        """Open a catalog created by ``init`` and upgrade its schema."""
        url = database_url(location)
        database = Database.open(url)
        try:
            migrations.migrate(database)
            with database.read() as connection:
                rows = connection.execute(select(catalog_info.c.key, catalog_info.c.value))
                info = {row.key: row.value for row in rows}
            storage_url = info["storage"]
            if storage_url == _BESIDE:
                beside = Path(url.removeprefix("sqlite:///")).parent / STORAGE_FOLDER
                storage_url = normalize(str(beside))
            storage = wrap_storage(ObjectStorage.open(storage_url))
            root_marker.check(storage, info["uid"])
        except BaseException:
            database.close()
            raise
        home = Home(database, storage, info["uid"], registered=REGISTERED in info)
        return cls._at_work(database, storage, clock, home)

    @classmethod
    def _at_work(
        cls, database: Database, storage: Storage, clock: Clock | None, home: Home
    ) -> Catalog:
        catalog = cls(database, storage, clock or SystemClock(), home)
        catalog._reaping.start(SAFETY.reap_interval)
        return catalog

    def close(self) -> None:
        """Close this instance's partitions, release its leases, and close the database."""
        self._reaper.stop()
        self._reaping.close()
        self._partitions.close()
        self._leases.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def database_name(self) -> str:
        """Location of the metadata without a password, for display."""
        return self._database.name

    @property
    def database_files(self) -> list[Path]:
        """Files of a database on this machine; several while it is open."""
        return self._database.files()

    @property
    def storage_url(self) -> str:
        """Location of the objects."""
        return self._storage.url

    @property
    def storage(self) -> Storage:
        return self._storage

    def create_repository(self, name: str, *, default_branch: str = "main") -> Repository:
        """Create a repository with an empty first commit on its default branch."""
        names.check_repository_name(name)
        names.check_no_uid(name)
        names.check_ref_name(default_branch, "branch")
        uid = new_uid()
        now = self._clock.now()
        origin = Commit(new_uid(), (), "", now, "", "Repository created")

        def work(connection: Connection) -> None:
            if connection.execute(_named(name)).first() is not None:
                raise AlreadyExists(
                    f"repository {name!r} already exists", hint="choose another name"
                )
            connection.execute(
                insert(repositories).values(
                    uid=uid, name=name, default_branch=default_branch, created_at=to_micros(now)
                )
            )
            save(connection, uid, origin)
            refs.insert_branch(connection, uid, default_branch, origin.id, to_micros(now))

        self._database.transact(work)
        return self.repository(name)

    def repository(self, name: str) -> Repository:
        """Return a repository by name."""
        with self._database.read() as connection:
            row = connection.execute(_named(name)).first()
        if row is None:
            raise NotFound(
                f"there is no repository {name!r}", hint="list them with `reclaim repo list`"
            )
        return self._repository(row)

    def repositories(self) -> list[RepositoryInfo]:
        """Return all repositories, by name."""
        query = select(repositories).where(repositories.c.deleted_at.is_(None))
        with self._database.read() as connection:
            return [
                RepositoryInfo(row.name, row.uid, row.default_branch, from_micros(row.created_at))
                for row in connection.execute(query.order_by(repositories.c.name))
            ]

    def delete_repository(self, name: str) -> None:
        """Delete a repository. Its row stays, so its bytes can still be collected."""

        def work(connection: Connection) -> None:
            row = connection.execute(_named(name).with_for_update()).first()
            if row is None:
                raise NotFound(
                    f"there is no repository {name!r}", hint="list them with `reclaim repo list`"
                )
            connection.execute(
                update(repositories)
                .where(repositories.c.uid == row.uid)
                .values(deleted_at=to_micros(self._clock.now()))
            )
            for table in (branches, tags):
                connection.execute(delete(table).where(table.c.repo_uid == row.uid))
            connection.execute(
                update(staging_tokens)
                .where(
                    staging_tokens.c.repo_uid == row.uid,
                    staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),
                )
                .values(state=TokenState.DROPPED, version=staging_tokens.c.version + 1)
            )

        self._database.transact(work)

    def repository_of_run(self, run_id: str) -> Repository:
        """Return the repository of a run."""
        query = (
            select(repositories)
            .join(runs, runs.c.repo_uid == repositories.c.uid)
            .where(runs.c.id == run_id, repositories.c.deleted_at.is_(None))
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        return self._repository(row)

    def workspace(self, name: str) -> Workspace:
        """Return a repository for the collector by uid, deleted or not, or else by name.

        The uid takes precedence: an old repository may be named like another's uid.
        """
        with self._database.read() as connection:
            by_uid = select(repositories).where(repositories.c.uid == name)
            row = connection.execute(by_uid).first() or connection.execute(_named(name)).first()
        if row is None:
            raise NotFound(
                f"there is no repository {name!r}", hint="list them with `reclaim repo list`"
            )
        return self._workspace(row)

    def workspaces(self) -> list[Workspace]:
        """Return every repository with possible garbage, deleted ones last."""
        with self._database.read() as connection:
            query = select(repositories).order_by(
                repositories.c.deleted_at.is_not(None), repositories.c.name, repositories.c.uid
            )
            rows = connection.execute(query).all()
        return [self._workspace(row) for row in rows]

    def reap(self) -> list[Reaped]:
        """Run the reaper once on every repository with ``hard_delete=on``.

        An open catalog does this in the background, every few minutes. An error in a repository is
        raised after the others are processed.
        """
        done, failures = self.reap_each()
        if failures:
            raise failures[0]
        return done

    def reap_each(self) -> tuple[list[Reaped], list[ReclaimError]]:
        """Run the reaper once on each repository; return results and errors separately."""
        done: list[Reaped] = []
        failures: list[ReclaimError] = []
        for outcome in self._reaper.rounds():
            if isinstance(outcome, ReclaimError):
                failures.append(outcome)
            else:
                done.append(outcome)
        return done, failures

    def backlog(self, repo_uid: str) -> Backlog:
        """Return the objects of a repository waiting for the reaper, and those it has deleted."""
        from reclaim.catalog.reaping.backlog import read_backlog

        with self._database.read() as connection:
            now = to_micros(self._database.now(connection, self._clock))
            return read_backlog(connection, repo_uid, now)

    def clean(self) -> dict[str, Cleaned]:
        """Remove obsolete rows, also of deleted repositories; return the removed rows by name.

        Counts of repositories with the same name are added up.
        """
        from reclaim.catalog.reaping import missing_objects, obsolete_rows

        with self._database.read() as connection:
            query = select(repositories.c.uid, repositories.c.name).order_by(repositories.c.name)
            rows = connection.execute(query).all()
        cleaned: dict[str, Cleaned] = {}
        for row in rows:
            done = cleaner.clean(self._database, self._clock, row.uid)
            if obsolete_rows.has_any(self._database, self._clock, row.uid):
                probe = addresses.run(row.uid, "clean") + f"clock-{new_uid()}"
                with self._database.read() as connection:
                    now = self._database.now(connection, self._clock)
                check_clock(self._storage, probe, now)
                obsolete_rows.remove(self._database, self._clock, row.uid)
            missing_objects.remove(self._database, self._storage, self._clock, row.uid)
            before = cleaned.get(row.name, Cleaned(0, 0, finished=True))
            cleaned[row.name] = Cleaned(
                before.rows + done.rows,
                before.tokens + done.tokens,
                before.finished and done.finished,
            )
        return cleaned

    def _repository(self, row: Row[Any]) -> Repository:
        return Repository(self._workspace(row), self._leases)

    def _workspace(self, row: Row[Any]) -> Workspace:
        return Workspace(
            repo_uid=row.uid,
            name=row.name,
            default_branch=row.default_branch,
            created_at=from_micros(row.created_at),
            deleted=row.deleted_at is not None,
            database=self._database,
            storage=self._storage,
            clock=self._clock,
            partitions=self._partitions,
            containers=self._containers,
            externals=self._externals,
            home=self.home,
        )


def _named(name: str) -> Select[Any]:
    return select(repositories).where(
        repositories.c.name == name, repositories.c.deleted_at.is_(None)
    )


def _refuse_existing(connection: Connection, database: Database) -> None:
    if connection.dialect.has_table(connection, catalog_info.name):
        raise AlreadyExists(
            f"a catalog already exists at {database.name}",
            hint="open it, or choose another location",
        )
    taken = metadata.tables.keys() & set(inspect(connection).get_table_names())
    if taken:
        raise Refused(
            f"the database {database.name} contains tables of another application with names "
            f"used by a catalog: {', '.join(sorted(taken))}",
            hint="give the catalog a database of its own",
        )

"""Home of a storage: the only database whose collectors may delete there.

The home is registered in the storage, next to the marker of the root, by the identity of the
database, which a copy does not share. Only collectors check it: changes unknown to a copy, such as
a tag created in the original on a dead commit, leave no other trace. Reading and writing work from
any copy.
"""

from __future__ import annotations

import json
from contextlib import suppress

from sqlalchemy import Connection, insert, select

from reclaim.catalog.addresses import HOME
from reclaim.catalog.database.identity import Identity, identify, same, tells
from reclaim.catalog.database.schema import catalog_info
from reclaim.catalog.database.transactions import Database
from reclaim.errors import AlreadyExists, AnotherDatabase, NotFound
from reclaim.storage import Storage

REGISTERED = "home_registered"
"""Key of the row recording that the storage names a home."""


class Home:
    """Registration of an opened catalog's database with its storage."""

    def __init__(self, database: Database, storage: Storage, uid: str, *, registered: bool) -> None:
        self._database = database
        self._storage = storage
        self._uid = uid
        self._registered = registered

    def identity(self) -> Identity | None:
        """Identity of this database; None if it is not available."""
        return identify(self._database)

    def check(self) -> None:
        """Refuse unless this database is the registered home.

        Without a registration, or without permission to read the identity of PostgreSQL, there is
        nothing to compare. A SQLite file always has an identity, unless it was moved while open.
        """
        registered = self._read()
        identity = self.identity()
        if identity is None and self._database.is_sqlite:
            raise self._refusal("has a home, but the file of this database was moved or deleted")
        if registered is None:
            if self._registered:
                raise self._refusal("has lost the registration of its home")
            return
        if identity is not None and not same(identity, registered):
            raise self._refusal("has another database as its home, of which this one is a copy")

    def require(self) -> None:
        """Like ``check``, but also refuse if the identity or the registration is missing.

        Used before automatic deletion; an explicit run registers first.
        """
        if self.identity() is None:
            raise self._refusal("has a home, but the identity of this database is not available")
        if self._read() is None:
            raise self._refusal("has no registered home yet")
        self.check()

    def claim(self) -> None:
        """Register this database if no home exists: catalogs of older versions have none.

        Another database may have been faster, so a collector checks afterwards.
        """
        if self._registered:
            return
        identity = self.identity()
        if identity is None:
            return
        with suppress(AlreadyExists):
            self._storage.put(HOME, self._encoded(identity), create=True)
        self._database.transact(self._note)

    def register(self) -> None:
        """Make this database the home of the storage, replacing any other."""
        self._database.transact(self.register_in)

    def register_in(self, connection: Connection) -> None:
        """Register within a transaction."""
        identity = self.identity()
        if identity is not None:
            self._storage.put(HOME, self._encoded(identity))
            self._storage.flush([HOME])
            self._note(connection)

    def _note(self, connection: Connection) -> None:
        query = select(catalog_info.c.value).where(catalog_info.c.key == REGISTERED)
        if connection.execute(query).first() is None:
            connection.execute(insert(catalog_info).values(key=REGISTERED, value="yes"))
        self._registered = True

    def _encoded(self, identity: Identity) -> bytes:
        return json.dumps({"catalog": self._uid, "database": dict(identity)}).encode()

    def _read(self) -> Identity | None:
        try:
            document = json.loads(self._storage.get(HOME))
            facts = {str(fact): str(value) for fact, value in document["database"].items()}
            uid = document["catalog"]
            if not tells(facts):
                raise ValueError("no identity")
        except NotFound:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refusal("has an unreadable registration of its home") from (error)
        if uid != self._uid:
            raise self._refusal("names a database of another catalog as its home")
        return facts

    def _refusal(self, reason: str) -> AnotherDatabase:
        return AnotherDatabase(
            f"the storage {self._storage.url} {reason}; {self._database.name} may not collect "
            "there",
            hint="collect with the original database; if this database is the right one, because "
            "it was moved or restored, make it the home: `reclaim doctor --adopt-partitions REPO`",
        )

"""The home of a storage: the one database whose collectors may delete there.

It is registered in the storage, beside the marker of the root, by the identity of the database,
which a copy does not have. Only collectors ask for it: what a copy does not know of, such as a tag
that the original gave to a dead commit, leaves no other trace. Reading and writing go on anywhere.
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
"""The key of the row that says that the storage names a home."""


class Home:
    """The registration of one opened catalog's database with its storage."""

    def __init__(self, database: Database, storage: Storage, uid: str, *, registered: bool) -> None:
        self._database = database
        self._storage = storage
        self._uid = uid
        self._registered = registered

    def identity(self) -> Identity | None:
        """The identity of this database; None where it cannot be asked for."""
        return identify(self._database)

    def check(self) -> None:
        """Refuse unless this database is the one that the storage names.

        Where nothing was registered yet, or PostgreSQL may not be asked who it is, there is nothing
        to compare. The file of SQLite can always be asked, if it is where it was opened.
        """
        registered = self._read()
        identity = self.identity()
        if identity is None and self._database.is_sqlite:
            raise self._refusal("has a home, and the file of this database is not where it was")
        if registered is None:
            if self._registered:
                raise self._refusal("does not say any more which database is its home")
            return
        if identity is not None and not same(identity, registered):
            raise self._refusal("has another database as its home, of which this one is a copy")

    def require(self) -> None:
        """The same, and refuse also where nobody can tell, or nothing was registered yet.

        For what deletes by itself: who collects is asked for it, and registers first.
        """
        if self.identity() is None:
            raise self._refusal("has a home, and who this database is cannot be asked for")
        if self._read() is None:
            raise self._refusal("does not say yet which database is its home")
        self.check()

    def claim(self) -> None:
        """Register this database, unless one is: of an older version no catalog has a home.

        Another may have been quicker, so who is about to collect checks afterwards.
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
        """Make this database the home of the storage, whatever was."""
        self._database.transact(self.register_in)

    def register_in(self, connection: Connection) -> None:
        """The same, in a transaction."""
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
            raise self._refusal("does not say in a readable way which database is its home") from (
                error
            )
        if uid != self._uid:
            raise self._refusal("names a database of another catalog as its home")
        return facts

    def _refusal(self, reason: str) -> AnotherDatabase:
        return AnotherDatabase(
            f"the storage {self._storage.url} {reason}; {self._database.name} may not collect "
            "there",
            hint="collect with the original database; if this one is the right one, because it "
            "was moved or restored, make it the home: `reclaim doctor --adopt-partitions REPO`",
        )

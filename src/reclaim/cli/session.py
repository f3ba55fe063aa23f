"""A session: what the global options say, handed to each command."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from reclaim.cli.views.output import ConsoleOutput, JsonOutput, Output
from reclaim.errors import InvalidInput, Refused

if TYPE_CHECKING:
    from reclaim.api.store import OpenStore
    from reclaim.api.work import Work
    from reclaim.catalog import Catalog
    from reclaim.stores.base import Store
    from reclaim.stores.registry import NamedStore


@dataclass(frozen=True, slots=True)
class Globals:
    """The global options that were given so far, from left to right."""

    catalog: str | None = None
    as_json: bool = False
    quiet: bool = False
    verbose: int = 0
    log_format: str | None = None
    no_header: bool = False

    def then(self, later: Globals) -> Globals:
        return Globals(
            later.catalog or self.catalog,
            later.as_json or self.as_json,
            later.quiet or self.quiet,
            later.verbose or self.verbose,
            later.log_format or self.log_format,
            later.no_header or self.no_header,
        )


@dataclass(frozen=True, slots=True)
class Session:
    """Where the catalog is and where the answer goes."""

    location: str
    named: bool
    """Whether ``--catalog`` named the location."""
    output: Output

    def open(self) -> Catalog:
        """Open the catalog; to be used in a ``with`` block."""
        from reclaim.catalog import Catalog

        return Catalog.open(self.location)

    @contextmanager
    def stores(self, name: str | None) -> Iterator[Sequence[Store]]:
        """The store of a name, or all of the catalog; only for the latter it is opened."""
        from reclaim.stores.registry import find, find_all, find_foreign

        foreign = None if name is None else find_foreign(name)
        if foreign is not None:
            yield [foreign]
            return
        with self.open() as catalog:
            yield list(find_all(catalog)) if name is None else [find(catalog, name)]

    @contextmanager
    def open_stores(self, name: str | None, work: Work) -> Iterator[Sequence[OpenStore]]:
        """The same as ``stores``, to make runs with."""
        from reclaim.api.store import OpenStore

        with self.stores(name) as stores:
            yield [OpenStore(store, work) for store in stores]

    @contextmanager
    def all_stores(self, location: str | None) -> Iterator[Sequence[NamedStore]]:
        """Every store at a location, as SCHEME:LOCATION; every one of the catalog without any."""
        from reclaim.stores.registry import find_several

        if location is not None:
            yield list(find_several(location))
            return
        with self.named_stores(None) as stores:
            yield stores

    @contextmanager
    def named_stores(self, name: str | None) -> Iterator[Sequence[NamedStore]]:
        """The same as ``stores``, each with its name."""
        from reclaim.stores.registry import NamedStore

        with self.stores(name) as stores:
            yield [NamedStore(store.name, partial(_same, store)) for store in stores]

    @contextmanager
    def planned(self, store: str | None, kind: str, name: str, uid: str) -> Iterator[Store]:
        """The store that a plan was made for, which has to be the one that was named, if one was.

        A plan must not choose a folder by itself, so other stores than the catalog's are named.
        """
        from reclaim.stores.registry import check_planned, find_planned, name_of

        if store is not None:
            with self.stores(store) as [opened]:
                check_planned(opened, kind=kind, name=name, uid=uid)
                yield opened
            return
        if kind != "catalog":
            raise Refused(
                f"the plan is for a {kind} store, which has to be named",
                hint=f"add --store {name_of(kind, name, uid)}, if that is the store that you mean",
            )
        with self.open() as catalog:
            yield find_planned(catalog, name=name, uid=uid)

    def confirm(self, what: str, *, yes: bool) -> None:
        """Ask before something that cannot be taken back; without a terminal, ``--yes`` answers."""
        if yes:
            return
        if self.output.for_programs or not sys.stdin.isatty():
            raise Refused(
                f"refusing to {what} without confirmation (no terminal)", hint="use --yes"
            )
        print(f"Really {what}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("not confirmed; nothing was changed")


def _same(store: Store) -> Store:
    return store


def output_for(as_json: bool, *, no_header: bool = False) -> Output:
    return JsonOutput() if as_json else ConsoleOutput(header=not no_header)


def login_name() -> str:
    """The name of the user who runs this command, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def parse_metadata(pairs: Sequence[str]) -> dict[str, str]:
    """The metadata that ``--meta KEY=VALUE`` options give."""
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not (key and sign):
            raise InvalidInput(f"{pair!r} is not metadata", hint="write --meta KEY=VALUE")
        metadata[key] = value
    return metadata

"""A session: the catalog and the output, chosen by global options."""

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
    """Global options given so far, from left to right."""

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
    """Location of the catalog, and destination of the answer."""

    location: str
    named: bool
    """Whether ``--catalog`` named the location."""
    output: Output

    def open(self) -> Catalog:
        """Open the catalog, for a ``with`` block."""
        from reclaim.catalog import Catalog

        return Catalog.open(self.location)

    @contextmanager
    def stores(self, name: str | None) -> Iterator[Sequence[Store]]:
        """Open the store of a name, or all stores of the catalog."""
        from reclaim.stores.registry import find, find_all, find_foreign

        foreign = None if name is None else find_foreign(name)
        if foreign is not None:
            yield [foreign]
            return
        with self.open() as catalog:
            yield list(find_all(catalog)) if name is None else [find(catalog, name)]

    @contextmanager
    def open_stores(self, name: str | None, work: Work) -> Iterator[Sequence[OpenStore]]:
        """Like ``stores``, ready to make runs."""
        from reclaim.api.store import OpenStore

        with self.stores(name) as stores:
            yield [OpenStore(store, work) for store in stores]

    @contextmanager
    def all_stores(self, location: str | None) -> Iterator[Sequence[NamedStore]]:
        """Open every store at SCHEME:LOCATION, or every store of the catalog."""
        from reclaim.stores.registry import find_several

        if location is not None:
            yield list(find_several(location))
            return
        with self.named_stores(None) as stores:
            yield stores

    @contextmanager
    def named_stores(self, name: str | None) -> Iterator[Sequence[NamedStore]]:
        """Like ``stores``, each with its name."""
        from reclaim.stores.registry import NamedStore

        with self.stores(name) as stores:
            yield [NamedStore(store.name, partial(_same, store)) for store in stores]

    @contextmanager
    def planned(self, store: str | None, kind: str, name: str, uid: str) -> Iterator[Store]:
        """Open the store of a plan. Refuse a different store than the named store.

        A plan must not choose a folder by itself: stores outside the catalog must be named.
        """
        from reclaim.stores.registry import check_planned, find_planned, name_of

        if store is not None:
            with self.stores(store) as [opened]:
                check_planned(opened, kind=kind, name=name, uid=uid)
                yield opened
            return
        if kind != "catalog":
            raise Refused(
                f"the plan is for a {kind} store; name the store",
                hint=f"add --store {name_of(kind, name, uid)}, if this is the intended store",
            )
        with self.open() as catalog:
            yield find_planned(catalog, name=name, uid=uid)

    def confirm(self, action: str, *, yes: bool) -> None:
        """Ask before an irreversible action; without a terminal, ``--yes`` is required."""
        if yes:
            return
        if self.output.for_programs or not sys.stdin.isatty():
            raise Refused(
                f"refusing to {action} without confirmation (no terminal)", hint="use --yes"
            )
        print(f"Really {action}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused("not confirmed; nothing was changed")


def _same(store: Store) -> Store:
    return store


def output_for(as_json: bool, *, no_header: bool = False) -> Output:
    return JsonOutput() if as_json else ConsoleOutput(header=not no_header)


def login_name() -> str:
    """Return the login name of the user; empty if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def parse_metadata(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``--meta KEY=VALUE`` options."""
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not (key and sign):
            raise InvalidInput(f"{pair!r} is not metadata", hint="write --meta KEY=VALUE")
        metadata[key] = value
    return metadata

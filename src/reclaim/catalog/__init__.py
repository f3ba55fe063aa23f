"""Catalog: a versioned object store on a SQL database and object storage.

A *repository* has *branches* and *tags* pointing to *commits*. Changes are *staged* on a branch in
rows of a *staging token*; a commit writes them into *ranges*, listed in a *metarange*. An open
*partition* or an *upload token* protects bytes during an upload. The *ledger* lists the addresses
of uploads not yet committed and cleaned.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reclaim.catalog.branch import Branch
    from reclaim.catalog.catalog import Catalog, RepositoryInfo
    from reclaim.catalog.collection.edit.history_edit import HistoryEdit, HistoryRead
    from reclaim.catalog.collection.roots.observing import Roots
    from reclaim.catalog.content.diffing import Change, ChangeKind
    from reclaim.catalog.content.entries import Entry
    from reclaim.catalog.names import RefPath
    from reclaim.catalog.reaping.backlog import Backlog
    from reclaim.catalog.reaping.reaper import Reaped
    from reclaim.catalog.refs.commits import Commit
    from reclaim.catalog.refs.merging import Side
    from reclaim.catalog.refs.reading import ObjectReader, Page, RefReader
    from reclaim.catalog.refs.refs import NamedRef
    from reclaim.catalog.repository import Repository
    from reclaim.catalog.settings import RepositorySettings
    from reclaim.catalog.staging.cleaner import Cleaned
    from reclaim.catalog.staging.imports import Import
    from reclaim.catalog.staging.physical_addresses import PhysicalAddress

__all__ = [
    "Backlog",
    "Branch",
    "Catalog",
    "Change",
    "ChangeKind",
    "Cleaned",
    "Commit",
    "Entry",
    "HistoryEdit",
    "HistoryRead",
    "Import",
    "NamedRef",
    "ObjectReader",
    "Page",
    "PhysicalAddress",
    "Reaped",
    "RefPath",
    "RefReader",
    "Repository",
    "RepositoryInfo",
    "RepositorySettings",
    "Roots",
    "Side",
]

_MODULES = {
    "RepositorySettings": "settings",
    "Reaped": "reaping.reaper",
    "Backlog": "reaping.backlog",
    "Branch": "branch",
    "Catalog": "catalog",
    "Change": "content.diffing",
    "ChangeKind": "content.diffing",
    "Cleaned": "staging.cleaner",
    "Commit": "refs.commits",
    "Entry": "content.entries",
    "HistoryEdit": "collection.edit.history_edit",
    "HistoryRead": "collection.edit.history_edit",
    "Import": "staging.imports",
    "NamedRef": "refs.refs",
    "ObjectReader": "refs.reading",
    "Page": "refs.reading",
    "PhysicalAddress": "staging.physical_addresses",
    "RefPath": "names",
    "RefReader": "refs.reading",
    "Repository": "repository",
    "RepositoryInfo": "catalog",
    "Roots": "collection.roots.observing",
    "Side": "refs.merging",
}
"""Module of each public name, loaded on first access: readers need only half of them."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

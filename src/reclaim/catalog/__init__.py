"""The catalog: a versioned object store on a SQL database and object storage.

A *repository* has *branches* and *tags* that point at *commits*. Changes are *staged* on a branch
in rows that belong to a *staging token*; a commit writes them into *ranges*, which a *metarange*
lists. Bytes in flight are protected by an open *partition* or an *upload token*. The *ledger*
knows the addresses whose upload has not been committed and cleaned yet.
"""

from reclaim.catalog.branch import Branch
from reclaim.catalog.catalog import Catalog, RepositoryInfo
from reclaim.catalog.collection.access import RepositoryAccess
from reclaim.catalog.collection.history_edit import HistoryEdit, HistoryRead
from reclaim.catalog.collection.observing import Roots
from reclaim.catalog.content.diffing import Change, ChangeKind
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.names import RefPath
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.merging import Side
from reclaim.catalog.refs.reading import Page, RefReader
from reclaim.catalog.refs.refs import NamedRef
from reclaim.catalog.repository import Repository
from reclaim.catalog.staging.cleaner import Cleaned
from reclaim.catalog.staging.imports import Import
from reclaim.catalog.staging.physical_addresses import PhysicalAddress

__all__ = [
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
    "Page",
    "PhysicalAddress",
    "RefPath",
    "RefReader",
    "Repository",
    "RepositoryAccess",
    "RepositoryInfo",
    "Roots",
    "Side",
]

"""The catalog: a versioned object store on a SQL database and object storage.

A *repository* has *branches* and *tags* that point at *commits*. Changes are *staged* on a branch
in rows that belong to a *staging token*; a commit writes them into *ranges*, which a *metarange*
lists. Bytes in flight are protected by an open *partition* or an *upload token*. The *ledger*
knows the addresses whose upload has not been committed and cleaned yet.
"""

from reclaim.catalog.branch import Branch
from reclaim.catalog.catalog import Catalog, RepositoryInfo
from reclaim.catalog.cleaner import Cleaned
from reclaim.catalog.collecting import Collecting
from reclaim.catalog.commits import Commit
from reclaim.catalog.diffing import Change, ChangeKind
from reclaim.catalog.entries import Entry
from reclaim.catalog.imports import Import
from reclaim.catalog.merging import Side
from reclaim.catalog.names import Place
from reclaim.catalog.observing import Roots
from reclaim.catalog.physical import PhysicalAddress
from reclaim.catalog.prepare import Prepared
from reclaim.catalog.reading import Page, Reader
from reclaim.catalog.refs import NamedRef
from reclaim.catalog.repository import Repository
from reclaim.catalog.rewriting import HistoryEdit, HistoryRead

__all__ = [
    "Branch",
    "Catalog",
    "Change",
    "ChangeKind",
    "Cleaned",
    "Collecting",
    "Commit",
    "Entry",
    "HistoryEdit",
    "HistoryRead",
    "Import",
    "NamedRef",
    "Page",
    "PhysicalAddress",
    "Place",
    "Prepared",
    "Reader",
    "Repository",
    "RepositoryInfo",
    "Roots",
    "Side",
]

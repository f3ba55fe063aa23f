"""An fsspec filesystem on the catalog: ``reclaim://REPO/REF/path``.

    fs = fsspec.filesystem("reclaim", catalog=".reclaim")
    fs.ls("sales/main")
    pandas.read_parquet("reclaim://sales/v1/orders.parquet")

The root lists repositories, and a repository lists its branches and tags. Any ref expression of the
command line can stand in place of a branch, such as a commit id. A slash inside a ref is written
``%2F``.

*Object files* are read by ranges, each in a single request, and keep the lease on their commit
until they are closed. Branches are read without a lease, as the catalog reads them. *Staged files*
are written on branches: a file is staged when it is closed, and becomes part of the history with
the next commit.
"""

from reclaim.filesystem.filesystem import ReclaimFileSystem

__all__ = ["ReclaimFileSystem"]

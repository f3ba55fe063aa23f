"""Folders and files of a repository."""

from __future__ import annotations

SNAPSHOTS = "snapshots"
MANIFESTS = "manifests"
TRANSACTIONS = "transactions"
CHUNKS = "chunks"
REFS = "refs"
REPO = "repo"
OVERWRITTEN = "overwritten"
"""Folder of backups: copies of replaced ``repo`` files."""
OURS = "_reclaim"
"""Folder of Reclaim's own files. The library lists only its own folders."""

"""Where things are in a repository."""

from __future__ import annotations

SNAPSHOTS = "snapshots"
MANIFESTS = "manifests"
TRANSACTIONS = "transactions"
CHUNKS = "chunks"
REFS = "refs"
REPO = "repo"
OVERWRITTEN = "overwritten"
"""Backups: each ``repo`` that was replaced."""
OURS = "_reclaim"
"""Our own folder. The library lists only its own."""

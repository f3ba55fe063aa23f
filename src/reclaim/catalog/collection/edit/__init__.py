"""Edits of the history in place, and their rollback before a run has promoted."""

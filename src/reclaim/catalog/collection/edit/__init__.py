"""Edits of the history in place, and their roll-back before a run has promoted."""

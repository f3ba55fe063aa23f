"""Edits of the history that a run makes, and their undo."""

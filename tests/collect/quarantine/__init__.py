"""Quarantine, its promises, undo and purge."""

"""Undo: bring back the objects, snapshots and refs that a run took."""

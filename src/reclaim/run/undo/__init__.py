"""Undo: restore the objects, snapshots and refs a run removed."""

"""Sweep: remove objects in waves, by deleting them or by moving them to quarantine."""

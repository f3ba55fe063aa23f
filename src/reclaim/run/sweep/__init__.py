"""Sweep: take objects away in waves, for good or to quarantine."""

"""Purge: delete quarantined objects after their period."""

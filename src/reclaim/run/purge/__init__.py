"""Purge: delete quarantined objects for good, once their time is over."""

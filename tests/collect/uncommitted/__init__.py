"""Runs on uncommitted data."""

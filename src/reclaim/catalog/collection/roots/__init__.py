"""Roots of a repository, as read by a collector."""

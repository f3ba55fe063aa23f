"""Branches, tags and the commits that they name: commit, merge, read, log, leases."""

"""Uncommitted changes: staged rows in *tokens*, bytes in *partitions*, uploads, the *ledger*."""

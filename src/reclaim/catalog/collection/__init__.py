"""Garbage collection in a repository: roots, states of commits, edits of history, runs.

Commits are *condemned*, provisionally and then finally; edits of a run can be undone.
"""

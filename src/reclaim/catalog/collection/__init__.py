"""The collector's side of a repository: roots, states of commits, edits of history, runs.

Commits are *condemned*, provisionally and then for good; what a run edited can be taken back.
"""

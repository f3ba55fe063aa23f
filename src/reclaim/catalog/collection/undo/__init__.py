"""Undo of a run: parents, refs and commits as the run left them."""

"""Applies: confirm, condemn and sweep, with others at work."""

"""Planted bugs: each is a small change to the source, and a named test that must notice it."""

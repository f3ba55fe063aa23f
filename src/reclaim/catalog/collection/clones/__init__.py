"""Copies of a database that work on the same storage, and how they are noticed."""

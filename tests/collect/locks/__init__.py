"""The lock of a repository."""

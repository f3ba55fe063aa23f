"""Worlds, machines and writers that these tests share."""

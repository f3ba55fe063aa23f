"""Fixtures for lifecycle runs: as for collecting."""

from __future__ import annotations

from tests.collect.conftest import local, small_ranges, tmp_path, world

__all__ = ["local", "small_ranges", "tmp_path", "world"]

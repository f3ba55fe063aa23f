"""Every command of the application, read from the application itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reclaim.cli.application import application


def walk() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands and groups by name, the application itself first."""
    yield from _walk((), application())


def _walk(name: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield name, command
    for child, found in getattr(command, "commands", {}).items():
        yield from _walk((*name, child), found)


ALL = [name for name, _ in walk()]
LEAVES = [name for name, command in walk() if not hasattr(command, "commands")]

"""Database URL of a catalog's location."""

from __future__ import annotations

from pathlib import Path

from reclaim.errors import InvalidInput
from reclaim.urls import check_path

DATABASE_FILE = "catalog.db"


def database_url(location: str | Path) -> str:
    """Return the database URL for a catalog's location."""
    text = str(location)
    if not text.strip():
        raise InvalidInput("the location of the catalog is empty", hint="pass a folder or a URL")
    if "://" in text:
        return text
    check_path(text)
    return f"sqlite:///{Path(text).expanduser().absolute() / DATABASE_FILE}"

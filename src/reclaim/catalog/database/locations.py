"""The database that a catalog's location names."""

from __future__ import annotations

from pathlib import Path

from reclaim.errors import InvalidInput
from reclaim.urls import check_path

DATABASE_FILE = "catalog.db"


def database_url(location: str | Path) -> str:
    """The database that a catalog's location names."""
    text = str(location)
    if not text.strip():
        raise InvalidInput("the catalog's location is empty", hint="name a folder or a URL")
    if "://" in text:
        return text
    check_path(text)
    return f"sqlite:///{Path(text).expanduser().absolute() / DATABASE_FILE}"

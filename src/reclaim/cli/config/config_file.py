"""A configuration file: ``reclaim.toml`` beside the catalog, or the user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reclaim.errors import InvalidInput

NAME = "reclaim.toml"

_TABLE = re.compile(r"\s*\[\s*([^\]\[]+?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_AT = re.compile(r" \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key of a file, with its value and its line."""

    key: str
    value: Any
    line: int | None


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A parsed configuration file."""

    path: Path
    entries: tuple[ConfigEntry, ...]
    private: bool
    """Whether only its user and root can write it."""

    def where(self, entry: ConfigEntry) -> str:
        return str(self.path) if entry.line is None else f"{self.path}:{entry.line}"


def read_config(path: Path) -> ConfigFile | None:
    """Read a configuration file; None if it does not exist."""
    try:
        data = path.read_bytes()
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    import tomllib

    try:
        text = data.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not valid UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        reason = _AT.sub("", str(error))
        where = f"{path}:{at[1]}:{at[2]}" if at else str(path)
        raise InvalidInput(f"{where}: {reason}", hint="write TOML: key = value") from None
    entries = tuple(ConfigEntry(key, value, _line_of(text, key)) for key, value in _flat(document))
    owned = status.st_uid in (os.getuid(), 0) if hasattr(os, "getuid") else True
    return ConfigFile(path, entries, owned and not status.st_mode & 0o022)


def user_file() -> Path | None:
    """Return the path of the user's file, existing or not; None without a home folder."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".config"
    except RuntimeError:
        return None
    return folder / "reclaim" / NAME


def file_beside(catalog: str) -> Path | None:
    """Return the path of the file beside a catalog, existing or not; None for a database server."""
    if "://" not in catalog:
        return Path(catalog).expanduser().absolute().parent / NAME
    if catalog.startswith("sqlite:///"):
        return Path(catalog.removeprefix("sqlite:///")).absolute().parent / NAME
    return None


def _flat(document: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _line_of(text: str, sought: str) -> int | None:
    """Return the line that sets a key; None if the syntax is not recognized."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if opened := _TABLE.match(line):
            table = _bare(opened[1]) + "."
        elif (assignment := _KEY.match(line)) and sought == table + _bare(assignment[1]):
            return number
    return None


def _bare(key: str) -> str:
    """Remove quotes and spaces from a dotted key."""
    return ".".join(part.strip().strip("\"'") for part in key.split("."))

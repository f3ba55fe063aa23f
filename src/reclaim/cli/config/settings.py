"""Settings: what a command does unless an option says otherwise, and where that was said.

An option goes before its variable, a variable before the file beside the catalog, that before the
user's own, and all of them before the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reclaim.catalog.location import CATALOG_VARIABLE, DEFAULT_CATALOG
from reclaim.cli.config.config_file import (
    ConfigEntry,
    ConfigFile,
    file_beside,
    read_config,
    user_file,
)
from reclaim.errors import InvalidInput, Refused
from reclaim.urls import redacted

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
SPARK, LOCAL = ENGINES = ("spark", "local")

OPTION, VARIABLE, CATALOG_FILE, USER_FILE, DEFAULT = (
    "option",
    "variable",
    "catalog file",
    "user file",
    "default",
)
"""The origins of values, the strongest first."""
_ORDER = (OPTION, VARIABLE, CATALOG_FILE, USER_FILE, DEFAULT)

Value = str | bool | int | None


class _Wrong(ValueError):
    """A value that a setting cannot have; says which it can."""


def _text(value: Any) -> Value:
    if not isinstance(value, str) or not value:
        raise _Wrong("give it a text")
    return value


def _switch(value: Any) -> Value:
    if isinstance(value, bool):
        return value
    known = {"1": True, "true": True, "yes": True, "on": True} | dict.fromkeys(
        ("0", "false", "no", "off"), False
    )
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise _Wrong("set it to true or false")


def _one_of(*known: str) -> Callable[[Any], Value]:
    def check(value: Any) -> Value:
        if isinstance(value, str) and value.strip().lower() in known:
            return value.strip().lower()
        raise _Wrong(f"set it to one of {', '.join(known)}")

    return check


def _count(value: Any) -> Value:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise _Wrong("give it a number, such as 200")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its key in a file, its option and its variable."""

    key: str
    option: str
    """The name of the option's parameter in the commands that have it."""
    flag: str
    variable: str
    read: Callable[[Any], Value]
    """Checks a value, which is text in a variable and has a type in a file."""
    meaning: str
    default: Value = None
    guarded: bool = False
    """Whether it says what is deleted, or where programs and credentials are sent: then it is not
    taken from strangers."""


SETTINGS = (
    Setting(
        "catalog",
        "catalog",
        "--catalog",
        CATALOG_VARIABLE,
        _text,
        "the catalog: a folder or a URL",
        DEFAULT_CATALOG,
        guarded=True,
    ),
    Setting("quiet", "quiet", "--quiet", "RECLAIM_QUIET", _switch, "show no progress", False),
    Setting(
        "log", "verbose", "--verbose", "RECLAIM_LOG", _one_of(*LEVELS), "the least level to log"
    ),
    Setting(
        "log_format",
        "log_format",
        "--log-format",
        "RECLAIM_LOG_FORMAT",
        _one_of(*FORMATS),
        "log lines as text or JSON",
        "text",
    ),
    Setting(
        "committer",
        "committer",
        "--committer",
        "RECLAIM_COMMITTER",
        _text,
        "who commits; without it the login name",
    ),
    Setting(
        "min_age",
        "min_age",
        "--min-age",
        "RECLAIM_MIN_AGE",
        _text,
        "younger objects stay, whatever they are",
        "24h",
        guarded=True,
    ),
    Setting(
        "quarantine",
        "quarantine",
        "--quarantine",
        "RECLAIM_QUARANTINE",
        _switch,
        "move objects to quarantine instead of deleting them; without it as the store does",
        guarded=True,
    ),
    Setting(
        "keep",
        "keep",
        "--keep",
        "RECLAIM_KEEP",
        _text,
        "how long what is in quarantine can be brought back at least",
        "7d",
        guarded=True,
    ),
    Setting(
        "engine",
        "engine_name",
        "--engine",
        "RECLAIM_ENGINE",
        _one_of(*ENGINES),
        "where runs do their work: on Spark, or in the process of the command (local)",
        SPARK,
    ),
    Setting(
        "spark.master",
        "master",
        "--master",
        "RECLAIM_SPARK_MASTER",
        _text,
        "Spark's master; without it this machine",
        guarded=True,
    ),
    Setting(
        "spark.remote",
        "remote",
        "--remote",
        "SPARK_REMOTE",
        _text,
        "a Spark Connect server, instead of a master",
        guarded=True,
    ),
    Setting(
        "spark.tasks",
        "tasks",
        "--tasks",
        "RECLAIM_SPARK_TASKS",
        _count,
        "how many tasks a large job is cut into; without it two for each core",
    ),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of a setting, and where it comes from."""

    setting: Setting
    value: Value
    origin: str
    where: str = ""
    """The option, the variable, or the file and line."""

    @property
    def shown(self) -> Value:
        """The value without secrets."""
        return redacted(self.value) if isinstance(self.value, str) else self.value


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one command."""

    chosen: Mapping[str, Chosen]
    files: Sequence[tuple[str, Path, bool]] = ()
    """The files that were looked for: origin, path, and whether it is there."""

    def __getitem__(self, key: str) -> Value:
        return self.chosen[key].value

    def is_set(self, key: str) -> bool:
        return self.chosen[key].origin != DEFAULT

    def engine(self) -> str:
        """The engine; a master or a server on the command line is for Spark only."""
        engine = str(self["engine"])
        for key in ("spark.master", "spark.remote", "spark.tasks"):
            if engine != SPARK and self.chosen[key].origin == OPTION:
                raise InvalidInput(
                    f"{BY_KEY[key].flag} is an option of Spark, and the engine is {engine}",
                    hint="leave it out, or add --engine spark",
                )
        return engine

    def spark(self) -> tuple[str | None, str | None]:
        """The master or the Connect server that goes first; of equals the server."""
        master, remote = self.chosen["spark.master"], self.chosen["spark.remote"]
        if master.origin == remote.origin == OPTION:
            raise InvalidInput("--master and --remote exclude each other")
        if _ORDER.index(master.origin) < _ORDER.index(remote.origin):
            return str(master.value), None
        return None, None if remote.value is None else str(remote.value)


CURRENT: ContextVar[Settings | None] = ContextVar("settings", default=None)
"""The settings of the command that runs."""


def current() -> Settings:
    """The settings of the command that runs; outside a command, of a command without options."""
    return CURRENT.get() or find_settings({})


def find_settings(options: Mapping[str, Value]) -> Settings:
    """The settings, given the options of a command line, by key."""
    given = {
        key: Chosen(BY_KEY[key], value, OPTION, BY_KEY[key].flag) for key, value in options.items()
    }
    variables = {
        setting.key: _checked(setting, text, VARIABLE, setting.variable)
        for setting in SETTINGS
        if (text := os.environ.get(setting.variable))
    }
    files = _Files.find(given.get("catalog") or variables.get("catalog"))
    chosen = {
        setting.key: (
            given.get(setting.key)
            or variables.get(setting.key)
            or files.of_catalog.get(setting.key)
            or files.of_user.get(setting.key)
            or Chosen(setting, setting.default, DEFAULT)
        )
        for setting in SETTINGS
    }
    return Settings(chosen, files.looked_for)


@dataclass(frozen=True, slots=True)
class _Files:
    """The values in files, by key."""

    of_catalog: Mapping[str, Chosen]
    of_user: Mapping[str, Chosen]
    looked_for: Sequence[tuple[str, Path, bool]]

    @classmethod
    def find(cls, named: Chosen | None) -> _Files:
        """Read the user's file, and the one beside the catalog, which a file may have named."""
        own, own_read = _values(user_file(), USER_FILE)
        if named is not None:
            beside = file_beside(str(named.value))
        else:
            beside = file_beside(DEFAULT_CATALOG)
            found, _ = _values(beside, CATALOG_FILE)
            if "catalog" not in found and "catalog" in own:
                beside = file_beside(str(own["catalog"].value))
        if beside == user_file():
            beside = None
        of_catalog, read = _values(beside, CATALOG_FILE)
        return cls(of_catalog, own, [*read, *own_read])


def _values(
    path: Path | None, origin: str
) -> tuple[dict[str, Chosen], list[tuple[str, Path, bool]]]:
    if path is None:
        return {}, []
    file = read_config(path)
    if file is None:
        return {}, [(origin, path, False)]
    return {entry.key: _in_file(file, entry, origin) for entry in file.entries}, [
        (origin, path, True)
    ]


def _in_file(file: ConfigFile, entry: ConfigEntry, origin: str) -> Chosen:
    where = file.where(entry)
    setting = BY_KEY.get(entry.key)
    if setting is None:
        from difflib import get_close_matches

        close = get_close_matches(entry.key, BY_KEY, 1)
        known = f"did you mean {close[0]}?" if close else f"known are: {', '.join(BY_KEY)}"
        raise InvalidInput(f"{where}: there is no setting {entry.key!r}", hint=known)
    if setting.guarded and not file.private:
        raise Refused(
            f"{where}: {entry.key} is not taken from a file that others can write",
            hint=f"make the file yours alone, or use {setting.flag} or {setting.variable}",
        )
    chosen = _checked(setting, entry.value, origin, where)
    if setting.key == "catalog" and "://" not in str(chosen.value):
        beside = file.path.parent / Path(str(chosen.value)).expanduser()
        chosen = Chosen(setting, str(beside), origin, where)
    return chosen


def _checked(setting: Setting, value: Any, origin: str, where: str) -> Chosen:
    try:
        return Chosen(setting, setting.read(value), origin, where)
    except _Wrong as wrong:
        shown = redacted(value) if isinstance(value, str) else value
        named = where if origin == VARIABLE else f"{where}: {setting.key}"
        raise InvalidInput(f"{named} is {shown!r}", hint=str(wrong)) from None

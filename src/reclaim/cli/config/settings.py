"""Settings of commands, and their origins.

Precedence: option, environment variable, file beside the catalog, the user's file, default.
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
"""Origins of values, in order of precedence."""
_ORDER = (OPTION, VARIABLE, CATALOG_FILE, USER_FILE, DEFAULT)

Value = str | bool | int | None


class _Wrong(ValueError):
    """Invalid value of a setting; the message names the valid values."""


def _text(value: Any) -> Value:
    if not isinstance(value, str) or not value:
        raise _Wrong("set it to a text")
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
    raise _Wrong("set it to a number, such as 200")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its key in a file, its option and its variable."""

    key: str
    option: str
    """Parameter name of the option in commands."""
    flag: str
    variable: str
    read: Callable[[Any], Value]
    """Check a value: text from a variable, or a typed value from a file."""
    meaning: str
    default: Value = None
    guarded: bool = False
    """Whether the setting affects deletions, or the destination of programs and credentials. A
    guarded setting is refused in a file that others can write."""


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
        "log", "verbose", "--verbose", "RECLAIM_LOG", _one_of(*LEVELS), "the lowest level to log"
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
        "name of the committer; default: the login name",
    ),
    Setting(
        "min_age",
        "min_age",
        "--min-age",
        "RECLAIM_MIN_AGE",
        _text,
        "never delete younger objects",
        "24h",
        guarded=True,
    ),
    Setting(
        "quarantine",
        "quarantine",
        "--quarantine",
        "RECLAIM_QUARANTINE",
        _switch,
        "move objects to quarantine instead of deleting them; default: depends on the store",
        guarded=True,
    ),
    Setting(
        "keep",
        "keep",
        "--keep",
        "RECLAIM_KEEP",
        _text,
        "how long quarantined objects can be restored at least",
        "7d",
        guarded=True,
    ),
    Setting(
        "engine",
        "engine_name",
        "--engine",
        "RECLAIM_ENGINE",
        _one_of(*ENGINES),
        "engine of runs: spark, or local for the process of the command",
        SPARK,
    ),
    Setting(
        "spark.master",
        "master",
        "--master",
        "RECLAIM_SPARK_MASTER",
        _text,
        "Spark's master; default: this machine",
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
        "number of tasks of a large job; default: two for each core",
    ),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Chosen:
    """Value of a setting, and its origin."""

    setting: Setting
    value: Value
    origin: str
    where: str = ""
    """Option, variable, or file and line."""

    @property
    def shown(self) -> Value:
        """Value without secrets."""
        return redacted(self.value) if isinstance(self.value, str) else self.value


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a command."""

    chosen: Mapping[str, Chosen]
    files: Sequence[tuple[str, Path, bool]] = ()
    """Possible files: origin, path, and whether the file exists."""

    def __getitem__(self, key: str) -> Value:
        return self.chosen[key].value

    def is_set(self, key: str) -> bool:
        return self.chosen[key].origin != DEFAULT

    def engine(self) -> str:
        """Return the engine. Refuse options of Spark for another engine."""
        engine = str(self["engine"])
        for key in ("spark.master", "spark.remote", "spark.tasks"):
            if engine != SPARK and self.chosen[key].origin == OPTION:
                raise InvalidInput(
                    f"{BY_KEY[key].flag} is an option of Spark, and the engine is {engine}",
                    hint="leave it out, or add --engine spark",
                )
        return engine

    def spark(self) -> tuple[str | None, str | None]:
        """Return the master or the Connect server, by precedence; the server if equal."""
        master, remote = self.chosen["spark.master"], self.chosen["spark.remote"]
        if master.origin == remote.origin == OPTION:
            raise InvalidInput("--master and --remote exclude each other")
        if _ORDER.index(master.origin) < _ORDER.index(remote.origin):
            return str(master.value), None
        return None, None if remote.value is None else str(remote.value)


CURRENT: ContextVar[Settings | None] = ContextVar("settings", default=None)
"""Settings of the running command."""


def current() -> Settings:
    """Return the settings of the running command; outside a command, those without options."""
    return CURRENT.get() or find_settings({})


def find_settings(options: Mapping[str, Value]) -> Settings:
    """Find the settings, given the options of a command line by key."""
    from_options = {
        key: Chosen(BY_KEY[key], value, OPTION, BY_KEY[key].flag) for key, value in options.items()
    }
    variables = {
        setting.key: _checked(setting, text, VARIABLE, setting.variable)
        for setting in SETTINGS
        if (text := os.environ.get(setting.variable))
    }
    files = _Files.find(from_options.get("catalog") or variables.get("catalog"))
    chosen = {
        setting.key: (
            from_options.get(setting.key)
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
    """Values in files, by key."""

    of_catalog: Mapping[str, Chosen]
    of_user: Mapping[str, Chosen]
    looked_for: Sequence[tuple[str, Path, bool]]

    @classmethod
    def find(cls, catalog: Chosen | None) -> _Files:
        """Read the user's file and the file beside the catalog, which a file may name."""
        user_values, user_files = _values(user_file(), USER_FILE)
        if catalog is not None:
            beside = file_beside(str(catalog.value))
        else:
            beside = file_beside(DEFAULT_CATALOG)
            beside_default, _ = _values(beside, CATALOG_FILE)
            if "catalog" not in beside_default and "catalog" in user_values:
                beside = file_beside(str(user_values["catalog"].value))
        if beside == user_file():
            beside = None
        of_catalog, catalog_files = _values(beside, CATALOG_FILE)
        return cls(of_catalog, user_values, [*catalog_files, *user_files])


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
        hint = f"did you mean {close[0]}?" if close else f"known settings: {', '.join(BY_KEY)}"
        raise InvalidInput(f"{where}: there is no setting {entry.key!r}", hint=hint)
    if setting.guarded and not file.private:
        raise Refused(
            f"{where}: {entry.key} is refused in a file that others can write",
            hint="allow only yourself to write the file, "
            f"or use {setting.flag} or {setting.variable}",
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
        name = where if origin == VARIABLE else f"{where}: {setting.key}"
        raise InvalidInput(f"{name} is {shown!r}", hint=str(wrong)) from None

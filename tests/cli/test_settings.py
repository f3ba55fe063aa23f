"""Settings: options, variables, the file beside the catalog, the user's own, and their order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from reclaim.cli.config.settings import SETTINGS, current, find_settings
from reclaim.errors import InvalidInput
from tests.cli.conftest import CommandLine


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "reclaim").mkdir(parents=True)
    return tmp_path / "config" / "reclaim" / "reclaim.toml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: Path) -> Path:
    """The folder that commands are called in; its ``reclaim.toml`` is the catalog's."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o600)


def shown(bare: CommandLine, *options: str) -> dict[str, Any]:
    answer = bare.ok("config", "show", "--json", *options).json
    return {each["name"]: (each["value"], each["origin"]) for each in answer["settings"]}


def test_the_order(
    bare: CommandLine, project: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(bare)["log_format"] == ("text", "default")
    write(own, 'log_format = "json"\nquiet = true\n')
    assert shown(bare)["log_format"] == ("json", "user file")
    write(project / "reclaim.toml", 'log_format = "text"')
    assert shown(bare)["log_format"] == ("text", "catalog file")
    assert shown(bare)["quiet"] == (True, "user file")
    monkeypatch.setenv("RECLAIM_LOG_FORMAT", "json")
    assert shown(bare)["log_format"] == ("json", "variable")
    assert shown(bare, "--log-format", "text")["log_format"] == ("text", "option")
    monkeypatch.setenv("RECLAIM_QUIET", "off")
    assert shown(bare)["quiet"] == (False, "variable")
    assert shown(bare, "-q")["quiet"] == (True, "option")
    assert shown(bare, "-vv")["log"] == ("debug", "option")


def test_where_each_was_set(bare: CommandLine, project: Path, own: Path) -> None:
    write(own, '# mine\n\n[spark]\ntasks = 9\n"master" = "local[3]"\n')
    text = bare.ok("config", "show").out
    assert f"user file {own}:4" in text
    assert f"user file {own}:5" in text
    assert f"catalog file: {project / 'reclaim.toml'} (does not exist)" in text


def test_every_setting_can_be_set_in_each_place(
    project: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "catalog": "elsewhere",
        "quiet": True,
        "log": "info",
        "log_format": "json",
        "committer": "ines",
        "min_age": "2d",
        "quarantine": False,
        "keep": "9d",
        "engine": "local",
        "spark.master": "local[1]",
        "spark.remote": "sc://host:1",
        "spark.tasks": 5,
    }
    assert set(values) == {setting.key for setting in SETTINGS}
    as_toml = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool | int) else repr(value)}\n"
        for key, value in values.items()
    )
    for file, origin in ((own, "user file"), (project / "reclaim.toml", "catalog file")):
        write(file, as_toml)
        found = find_settings({})
        expected = values | {"catalog": str(file.parent / "elsewhere")}
        assert {key: each.value for key, each in found.chosen.items()} == expected
        assert {each.origin for each in found.chosen.values()} == {origin}
    for setting in SETTINGS:
        monkeypatch.setenv(setting.variable, str(values[setting.key]))
    found = find_settings({})
    assert {key: each.value for key, each in found.chosen.items()} == values
    assert {each.origin for each in found.chosen.values()} == {"variable"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quiet = true\nqiuet = false\n", "reclaim.toml:2: there is no setting 'qiuet'"),
        ("[spark]\nmastr = 'x'\n", "reclaim.toml:2: there is no setting 'spark.mastr'"),
        ("[other]\nx = 1\n", "reclaim.toml:2: there is no setting 'other.x'"),
        ("quiet = 'maybe'\n", "reclaim.toml:1: quiet is 'maybe'"),
        ("log = 'loud'\n", "reclaim.toml:1: log is 'loud'"),
        ("engine = 'duck'\n", "reclaim.toml:1: engine is 'duck'"),
        ("spark.tasks = 0\n", "reclaim.toml:1: spark.tasks is 0"),
        ("min_age = 3\n", "reclaim.toml:1: min_age is 3"),
        ("quiet = true\nlog =\n", "reclaim.toml:2:"),
        ("quiet = true\nquiet = true\n", "reclaim.toml:2:"),
    ],
)
def test_a_file_that_is_wrong(bare: CommandLine, project: Path, text: str, said: str) -> None:
    write(project / "reclaim.toml", text)
    error = bare.fails("invalid_input", 2, "config", "show")
    assert said in error["message"]
    bare.fails("invalid_input", 2, "repo", "list")


def test_what_is_close_is_suggested(bare: CommandLine, project: Path) -> None:
    write(project / "reclaim.toml", "log_fromat = 'json'")
    assert "log_format" in bare.fails("invalid_input", 2, "config", "show")["hint"]


def test_the_file_is_the_one_beside_the_catalog(
    bare: CommandLine, project: Path, own: Path, tmp_path: Path
) -> None:
    other = tmp_path / "data"
    other.mkdir()
    write(project / "reclaim.toml", "min_age = '1d'")
    write(other / "reclaim.toml", "min_age = '2d'")
    assert shown(bare)["min_age"] == ("1d", "catalog file")
    assert shown(bare, "--catalog", str(other / "catalog"))["min_age"] == ("2d", "catalog file")
    assert shown(bare, "--catalog", f"sqlite:///{other}/x.db")["min_age"][0] == "2d"
    assert shown(bare, "--catalog", "postgresql://host/db")["min_age"] == ("24h", "default")
    write(own, f"catalog = '{other}/catalog'")
    assert shown(bare)["min_age"] == ("2d", "catalog file")
    write(project / "reclaim.toml", "min_age = '1d'\ncatalog = 'here'")
    assert shown(bare)["catalog"] == (str(project / "here"), "catalog file")
    assert shown(bare)["min_age"] == ("1d", "catalog file")


def test_a_catalog_in_a_file_is_used(bare: CommandLine, project: Path) -> None:
    write(project / "reclaim.toml", "catalog = 'deep/catalog'\ncommitter = 'ines'")
    bare.ok("init")
    assert (project / "deep" / "catalog").is_dir()
    bare.ok("repo", "create", "sales")
    bare.ok("put", "-", "sales/main/a", stdin=b"x")
    made = bare.ok("commit", "sales/main", "-m", "x", "--json").json
    assert made["committer"] == "ines"


def test_secrets_are_hidden(
    bare: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECLAIM_CATALOG", "postgresql://ann:hunter2@host/db")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host/;token=hunter2")
    for options in ((), ("--json",)):
        out = bare.ok("config", "show", *options).out
        assert "hunter2" not in out
        assert "***" in out


def test_others_cannot_send_the_work_elsewhere(
    bare: CommandLine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can write beside a catalog must not get what a session of Spark has."""
    file = project / "reclaim.toml"
    write(file, "spark.remote = 'sc://elsewhere'")
    assert shown(bare)["spark.remote"] == ("sc://elsewhere", "catalog file")
    file.chmod(0o664)
    assert "reclaim.toml:1" in bare.fails("refused", 6, "config", "show")["message"]
    file.chmod(0o600)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if file.stat().st_uid != 0:
        bare.fails("refused", 6, "config", "show")
    write(file, "quiet = true")
    file.chmod(0o664)
    assert shown(bare)["quiet"] == (True, "catalog file")


@pytest.mark.parametrize(
    "text", ["min_age = '0s'", "quarantine = false", "keep = '1s'", "catalog = 'elsewhere'"]
)
def test_others_cannot_say_what_is_deleted(bare: CommandLine, project: Path, text: str) -> None:
    file = project / "reclaim.toml"
    write(file, text)
    shown(bare)
    file.chmod(0o664)
    bare.fails("refused", 6, "config", "show")


def test_where_spark_runs(monkeypatch: pytest.MonkeyPatch, own: Path, project: Path) -> None:
    def asked(**options: str) -> tuple[str | None, str | None]:
        return find_settings({f"spark.{name}": value for name, value in options.items()}).spark()

    assert asked() == (None, None)
    write(own, "spark.master = 'mine'")
    assert asked() == ("mine", None)
    monkeypatch.setenv("RECLAIM_SPARK_MASTER", "master")
    assert asked() == ("master", None)
    monkeypatch.setenv("SPARK_REMOTE", "sc://server")
    assert asked() == (None, "sc://server")
    assert asked(master="given") == ("given", None)
    assert asked(remote="sc://given") == (None, "sc://given")
    with pytest.raises(InvalidInput, match="exclude each other"):
        asked(master="one", remote="sc://other")


def test_settings_of_runs(
    cli: CommandLine, plain: None, own: Path, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECLAIM_CATALOG", str(location))
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    cli.ok("reset", "sales/main")
    write(own, "min_age = '0s'\nquarantine = true\nkeep = '3d'\n")
    allowed = ("--unsafe-allow-fraction", "1")
    assert cli.ok("plan", "sales", *allowed, "--json").json["candidates"] == 1
    assert cli.ok("plan", "sales", "--min-age", "1d", "--json").json["candidates"] == 0
    assert current()["min_age"] == "1d"
    done = cli.ok("gc", "sales", *allowed, "--json").json["stores"][0]
    assert done["until"]
    write(own, "min_age = 'old'")
    error = cli.fails("invalid_input", 2, "plan", "sales")
    assert f"{own}:1" in error["message"]
    write(own, "keep = '3d'\n")
    assert cli.ok("gc", "sales", "--min-age", "0", "--json").json["stores"][0]["state"] == "nothing"

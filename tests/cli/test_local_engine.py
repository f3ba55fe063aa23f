"""Runs on the local engine, on a machine that has neither Java nor PySpark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reclaim.engine.local.engine import LocalEngine
from tests.cli.commands import walk
from tests.cli.conftest import SOURCE, CommandLine, Result

ENGINE = ("--engine", "local")
Bare = Callable[..., Result]


@pytest.fixture
def machine(tmp_path: Path, location: Path) -> Bare:
    """Calls a command in a process that finds neither Java nor PySpark."""
    modules = tmp_path / "modules"
    modules.mkdir()
    missing = "raise ModuleNotFoundError('there is no PySpark here', name='pyspark')"
    (modules / "pyspark.py").write_text(missing)
    programs = tmp_path / "programs"
    programs.mkdir()
    left_out = {"JAVA_HOME", "SPARK_HOME", "RECLAIM_ENGINE", "SPARK_REMOTE"}
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {
        "PATH": str(programs),
        "PYTHONPATH": os.pathsep.join((str(modules), str(SOURCE))),
    }

    def call(*args: str, stdin: bytes = b"", java: bool = False, **more: str) -> Result:
        variables = environment | more
        if java:
            variables |= {"PYTHONPATH": str(SOURCE)}
        done = subprocess.run(
            [sys.executable, "-m", "reclaim.cli.main", *args],
            input=stdin,
            capture_output=True,
            env=variables,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


def ok(machine: Bare, *args: str) -> Any:
    done = machine(*args, "--json")
    assert (done.code, done.err) == (0, ""), done
    return json.loads(done.out)


def write(cli: CommandLine) -> None:
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))


def test_a_collection_without_java(cli: CommandLine, machine: Bare) -> None:
    write(cli)
    before = cli.ok("log", "sales", "--json").json
    plan = ("plan", "sales", "--min-age", "0", "--keep-last", "1", *ENGINE)
    planned = ok(machine, *plan)
    aside = ok(machine, "apply", planned["plan"], "--yes", "--quarantine", "--keep", "0s", *ENGINE)
    assert aside["objects"] > 0
    undone = ok(machine, "undo", planned["run"], *ENGINE)
    assert undone["objects"] == aside["objects"]
    assert cli.ok("log", "sales", "--json").json == before
    # The undo holds what came back; nothing is taken before the hold ends.
    cli.ok("lease", "release", "sales", "--holder", f"undo of run {planned['run']}")
    again = ok(machine, *plan)
    ok(machine, "apply", again["plan"], "--yes", "--quarantine", "--keep", "0s", *ENGINE)
    purged = ok(machine, "purge", "sales", "--run", again["run"], "--yes", *ENGINE)
    assert purged["stores"][0]["objects"] == aside["objects"]
    write(cli)
    collected = ok(machine, "gc", "sales", "--min-age", "0", "--keep-last", "1", *ENGINE)
    assert collected["stores"][0]["objects"] > 0
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"


@pytest.mark.parametrize("java", [False, True], ids=["no PySpark", "no Java"])
def test_an_engine_that_is_missing(cli: CommandLine, machine: Bare, java: bool) -> None:
    write(cli)
    failed = machine("plan", "sales", "--min-age", "0", java=java)
    assert failed.code == (5 if java else 2), failed
    assert "needs Java" in failed.err if java else "pyspark is not installed" in failed.err
    assert "--engine local" in failed.err.partition("hint: ")[2]


def test_the_engine_is_a_setting(cli: CommandLine, machine: Bare) -> None:
    write(cli)
    told = machine("plan", "sales", "--min-age", "0", RECLAIM_ENGINE="local")
    assert (told.code, told.err) == (0, ""), told
    failed = machine("plan", "sales", "--engine", "spark", RECLAIM_ENGINE="local")
    assert failed.code == 2
    assert "pyspark is not installed" in failed.err


def test_options_that_exclude_each_other(cli: CommandLine) -> None:
    for option in (("--master", "local[1]"), ("--remote", "sc://host"), ("--tasks", "3")):
        error = cli.fails("invalid_input", 2, "plan", "sales", *ENGINE, *option)
        assert f"{option[0]} is an option of Spark" in error["message"]
    error = cli.fails("invalid_input", 2, "plan", "sales", "--engine", "duck")
    assert error["hint"] == "set it to one of spark, local"


def test_each_command_with_a_master_has_an_engine() -> None:
    options = {name: {option.name for option in command.params} for name, command in walk()}
    with_master = {name for name, has in options.items() if "master" in has}
    assert len(with_master) >= 6
    assert with_master == {name for name, has in options.items() if "engine_name" in has}


def test_a_store_that_is_too_large(
    cli: CommandLine, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More objects than the engine works with are refused; a refused run leaves all of them."""
    write(cli)
    monkeypatch.setenv("RECLAIM_ENGINE", "local")
    plan = ("plan", "sales", "--min-age", "0", "--keep-last", "1")
    planned = cli.ok(*plan, "--json").json
    objects = set((location / "objects" / "repos").glob("*/branches/**/*"))
    assert len(objects) > 2
    defaults = LocalEngine.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "most_objects", 2)
    for refused in (plan, ("apply", planned["plan"], "--yes")):
        error = cli.fails("refused", 6, *refused)
        assert "more than 2 objects" in error["message"]
        assert "--engine spark" in error["hint"]
    assert objects == set((location / "objects" / "repos").glob("*/branches/**/*"))
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"


def test_a_doctor_does_not_ask_for_java(cli: CommandLine, machine: Bare) -> None:
    checks = [each["check"] for each in ok(machine, "doctor", *ENGINE)["findings"]]
    assert "storage" in checks
    assert not {"java", "spark"} & set(checks)

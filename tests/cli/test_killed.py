"""``kill -9`` of an apply in the middle of its sweep, on Spark; then it is applied again."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, Spawn

pytestmark = pytest.mark.repeats(first=1)

MANY = 15_000
"""So many that a sweep takes far longer than it takes to notice that it has begun."""
PATIENCE = 300.0


def count(folder: Path) -> int:
    with os.scandir(folder) as found:
        return sum(1 for _ in found)


def wait_for_sweep(location: Path, folder: Path, there: int) -> None:
    """Until the plan is confirmed, and something of it is gone."""
    until = time.monotonic() + PATIENCE
    confirmed = "objects/repos/*/_reclaim/runs/*/apply/*/objects"
    while not list(location.glob(confirmed)) or count(folder) == there:
        assert time.monotonic() < until, "nothing was taken"
        time.sleep(0.02)


def wait_for_quiet(folder: Path) -> int:
    """What is left when executors, which outlive the process for a moment, are gone too."""
    until = time.monotonic() + PATIENCE
    before = -1
    while (left := count(folder)) != before:
        assert time.monotonic() < until
        before = left
        time.sleep(1.0)
    return left


def release_when_java_has_ended(cli: CommandLine) -> None:
    """Release the lock, as soon as nothing runs that the killed process had started."""
    until = time.monotonic() + PATIENCE
    while cli("lock", "release", "sales").code:
        assert time.monotonic() < until
        time.sleep(0.2)
    assert "and has died" in cli.ok("doctor").out


@pytest.mark.parametrize("removal", [(), ("--quarantine",)], ids=["deletes", "sets aside"])
def test_killed_in_the_middle_of_a_sweep(
    cli: CommandLine, spawn: Spawn, location: Path, plain: None, removal: tuple[str, ...]
) -> None:
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("put", "-", f"sales/main/b/{number}", stdin=b"b")
        cli.ok("commit", "sales/main", "-m", str(number))
    log = cli.ok("log", "sales").out
    folder = min(location.glob("objects/repos/*/branches/main/*"))
    for number in range(MANY):
        (folder / f"{number:032x}").touch()
    there = count(folder)
    allowed = ("--min-age", "0", "--unsafe-allow-fraction", "1")
    plan = cli.ok("plan", "sales", *allowed, "--keep-last", "1", "--json").json
    apply = ("apply", plan["plan"], "--yes", *removal)

    process = spawn(*apply)
    wait_for_sweep(location, folder, there)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = wait_for_quiet(folder)
    assert there - MANY < left < there, "it was over before it was killed"

    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["id"], run["state"]) == (plan["run"], "promoted")
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"
    error = cli.fails("conflict", 4, *apply)
    assert plan["run"] in error["message"]
    assert "is free at" in error["hint"]
    assert run["locked_until"]
    [operator] = run["operators"]
    assert operator["command"].endswith(f"apply {plan['plan']} --yes {' '.join(removal)}".rstrip())
    release_when_java_has_ended(cli)
    with closing(sqlite3.connect(location / "catalog.db")) as database, database:
        # A minute later.
        database.execute("UPDATE locks SET expires_at = expires_at - 60000000")
    assert "not finished: apply it again" in cli.ok("runs", "sales").out

    done = cli.ok(*apply, "--json").json
    assert done["failed"] == 0
    assert done["objects"] == plan["candidates"]
    for number in range(3):
        assert cli.ok("get", f"sales/main/b/{number}", "-").out == "b"
    assert cli.ok("get", "sales/main/a", "-").out == "xxx"
    assert not (folder / f"{MANY - 1:032x}").exists()
    again = cli.ok(*apply, "--json").json
    assert (again["objects"], again["dropped"]) == (plan["candidates"], 0)
    if removal:
        back = cli.ok("undo", plan["run"], "--json").json
        assert (back["objects"], back["left"]) == (plan["candidates"], [])
        assert count(folder) == there
        assert cli.ok("log", "sales").out == log
    else:
        assert cli.ok("plan", "sales", *allowed, "--json").json["candidates"] == 0

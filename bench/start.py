"""How soon a command is there: what it loads, and how Spark starts. All in processes of their own.

A machine is seldom quiet, so commands and their peers take turns, and ratios are taken by turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter

from bench.figure import Figure
from reclaim.catalog import Catalog

RECLAIM = (sys.executable, "-c", "from reclaim.cli.main import script; script()")
"""As the installed command is, whatever is installed."""
NOTHING = (sys.executable, "-c", "pass")
PLAIN = """
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().range(1_000).groupBy().count().collect()
"""
"""A session with PySpark's defaults, and its first job."""


def _seconds(command: Sequence[str], environment: Mapping[str, str], code: int = 0) -> float:
    start = perf_counter()
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    took = perf_counter() - start
    assert done.returncode == code, (command, done.stderr[-2_000:])
    return took


def _processor_seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """What a process used of processors: the time that it takes on a machine that is quiet.

    Where others are at work too, a command that takes longer than a turn is put aside in between,
    and one that is over sooner is not, so that the clock would compare what cannot be compared.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


@contextmanager
def _catalog(count: int) -> Iterator[tuple[Path, dict[str, str]]]:
    """A catalog with as many objects in a commit, and an environment whose caches are its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Catalog.init(folder / "catalog") as catalog:
            main = catalog.create_repository("small").branch("main")
            main.put_many((f"data/{number}", b"x") for number in range(count))
            main.commit("all of it")
        environment = {
            **os.environ,
            "RECLAIM_CATALOG": str(folder / "catalog"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        environment.pop("RECLAIM_SPARK_ARCHIVE", None)
        # What is installed is compiled once, and not by every command.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield folder, environment


def _command(name: str, limit: float, *arguments: str, runs: int = 15) -> Figure:
    """A command against Python that does nothing."""
    ratios, seconds = [], []
    with _catalog(1) as (_, environment):
        _processor_seconds([*RECLAIM, *arguments], environment)
        for _ in range(runs):
            nothing = min(_processor_seconds(NOTHING, environment) for _ in range(3))
            took = _processor_seconds([*RECLAIM, *arguments], environment)
            ratios.append(took / nothing)
            seconds.append((took, nothing))
    (least, beside), (most, other) = min(seconds), max(seconds)
    notes = [
        f"{least:.3f} to {most:.3f} s of a processor, Python alone {beside:.3f} and {other:.3f} s"
    ]
    target = f"at most {limit:g} times Python alone"
    return Figure(name, ratios, target, lambda ratio: ratio <= limit, notes)


def version() -> Figure:
    """``reclaim --version``: 0.15 s where Python alone takes 0.02 s."""
    return _command("reclaim --version", 7.5, "--version")


def help() -> Figure:
    """``reclaim --help``: 0.3 s where Python alone takes 0.02 s."""
    return _command("reclaim --help", 15, "--help")


def ls() -> Figure:
    """``reclaim ls`` of a commit: 0.5 s where Python alone takes 0.02 s."""
    return _command("reclaim ls", 25, "ls", "small/main/")


@cache
def _starts(runs: int = 5, count: int = 1_000) -> tuple[Figure, Figure]:
    """A plan, and a refusal, against a session with PySpark's defaults and its first job."""
    plans, refusals, notes = [], [], []
    with _catalog(count) as (folder, environment):
        subprocess.run(
            [sys.executable, "-m", "reclaim.cli.archiving"],
            env=environment,
            check=True,
            capture_output=True,
        )
        for run in range(runs):
            plain = _seconds([sys.executable, "-c", PLAIN], environment)
            out = ["--out", str(folder / f"plan-{run}")]
            plan = _seconds([*RECLAIM, "plan", "small", "--json", *out], environment)
            # Its folder is not empty by now.
            refused = _seconds([*RECLAIM, "plan", "small", "--json", *out], environment, code=4)
            plans.append(plan / plain)
            refusals.append(refused / plain)
            notes.append(f"plan {plan:.1f} s, refusal {refused:.2f} s, plain session {plain:.1f} s")
    return (
        Figure("small plan", plans, "at most 0.8 plain sessions", lambda r: r <= 0.8, notes),
        Figure("refusal", refusals, "at most 0.2 plain sessions", lambda r: r <= 0.2, notes),
    )


def plan() -> Figure:
    return _starts()[0]


def refusal() -> Figure:
    return _starts()[1]


FIGURES = {
    "start-version": version,
    "start-help": help,
    "start-ls": ls,
    "start-plan": plan,
    "start-refusal": refusal,
}

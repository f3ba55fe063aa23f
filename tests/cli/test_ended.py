"""Ctrl-C and SIGTERM in the middle of a sweep on Spark: an end in order, that says little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from reclaim.cli.signals import Terminated
from reclaim.cli.views import exits
from reclaim.cli.views.failure import Failure
from reclaim.errors import StorageUnavailable
from reclaim.stores.catalog import HeldRepository
from tests.cli.conftest import SOURCE, CommandLine, Spawn
from tests.cli.test_killed import MANY, count, wait_for_sweep

ALLOWED = ("--min-age", "0", "--unsafe-allow-fraction", "1")


def test_terminated_in_the_middle_of_a_sweep(
    cli: CommandLine, spawn: Spawn, location: Path, plain: None
) -> None:
    """The lock is left to the tasks, the run is partial, and nobody prints a traceback."""
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    cli.ok("commit", "sales/main", "-m", "first")
    folder = min(location.glob("objects/repos/*/branches/main/*"))
    for number in range(MANY):
        (folder / f"{number:032x}").touch()
    there = count(folder)

    process = spawn("gc", "sales", *ALLOWED, "-q")
    wait_for_sweep(location, folder, there)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == exits.TERMINATED == 143, err.decode()
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    assert (run["state"], run["summary"]["error"]) == ("partial", "interrupted")
    assert out == b""
    error, hint = err.decode().splitlines()
    assert error.startswith("error: terminated; ")
    assert f"run {run['id']} may still be working on executors until " in hint
    conflict = cli.fails("conflict", 4, "gc", "sales", *ALLOWED)
    # By then, the tasks have ended as well or not.
    died = f"run {run['id']} has died and still holds the lock"
    at_work = f"run {run['id']} has ended, and may still be working on executors"
    assert conflict["message"].startswith((died, at_work))
    assert cli.ok("get", "sales/main/a", "-").out == "x"


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that is started instead of Spark."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("RECLAIM_SPARK_ARCHIVE", "off")
    file = tmp_path / "spark" / "bin" / "spark-submit"
    file.parent.mkdir(parents=True)
    return file


def test_java_ends_with_a_command_that_is_interrupted_while_java_starts(
    cli: CommandLine, spawn: Spawn, submit: Path
) -> None:
    """Java reads from a pipe of the command."""
    submit.write_text("#!/bin/sh\necho $$ > $0.begun\nexec cat\n")
    submit.chmod(0o700)
    begun = submit.with_name("spark-submit.begun")
    process = spawn("plan", "sales")
    while not (begun.exists() and begun.read_text().strip()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    java = psutil.Process(int(begun.read_text()))
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == exits.INTERRUPTED == 130
    java.wait(60)


def test_a_java_that_ends_by_itself_is_told(cli: CommandLine, spawn: Spawn, submit: Path) -> None:
    submit.write_text("#!/bin/sh\nexit 3\n")
    submit.chmod(0o700)
    process = spawn("plan", "sales")
    _, err = process.communicate()
    assert process.returncode == 5
    assert "no Spark session on local[*]" in err.decode()


HANDLERS = """
import os, signal, sys
from reclaim.cli import signals
number = getattr(signal, sys.argv[1])
# A test runner in the background may ignore the signal, and its children with it.
signal.signal(number, getattr(signal, sys.argv[2]))
signals.install()
try:
    os.kill(os.getpid(), number)
except KeyboardInterrupt as error:
    print(type(error).__name__, flush=True)
    os.kill(os.getpid(), number)
    print("still there", flush=True)
"""


@pytest.mark.parametrize(
    ("name", "raised", "code"),
    [("SIGINT", "KeyboardInterrupt", 130), ("SIGTERM", "Terminated", 143)],
)
def test_the_second_signal_ends_at_once(name: str, raised: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS, name, "SIG_DFL"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, f"{raised}\n", "")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS + "print('ignored')", "SIGINT", "SIG_IGN"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ignored\n")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [(KeyboardInterrupt(), "interrupted", 130), (Terminated(), "terminated", 143)],
)
def test_an_end_is_told(error: KeyboardInterrupt, kind: str, code: int) -> None:
    error.add_note("the lock is free at noon")
    failure = Failure.of(error)
    assert (failure.kind, failure.exit_code) == (kind, code)
    assert failure.message.startswith(kind)
    assert failure.hint == "run it again to do the rest; the lock is free at noon"


def test_an_apply_that_edited_history_and_stopped_is_undone(
    cli: CommandLine, location: Path, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        cli.ok("put", "-", "sales/main/a", stdin=b"x" * (number + 1))
        cli.ok("commit", "sales/main", "-m", str(number))
    log = cli.ok("log", "sales").out
    plan = cli.ok("plan", "sales", *ALLOWED, "--keep-last", "1", "--json").json

    def fail(_held: HeldRepository) -> None:
        raise StorageUnavailable("down")

    with monkeypatch.context() as patch:
        patch.setattr(HeldRepository, "close_overdue", fail)
        cli.fails("storage_unavailable", 5, "apply", plan["plan"], "--yes")
    # An edit of a run that took nothing away did not happen.
    assert cli.ok("log", "sales").out == log
    undone = cli.ok("undo", plan["run"], "--json").json
    assert (undone["run"], undone["objects"], undone["left"]) == (plan["run"], 0, [])
    assert cli.ok("log", "sales").out == log
    cli.fails("conflict", 4, "undo", plan["run"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_while_java_starts(
    cli: CommandLine, spawn: Spawn, tmp_path: Path, number: signal.Signals
) -> None:
    """Java is ended too: by the driver, or because nobody is left to write to it."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    # It says who it is, and ends when its pipe does.
    script.write_text('#!/bin/sh\necho $$ > "$0.begun.part"\nmv "$0.begun.part" "$0.begun"\ncat\n')
    script.chmod(0o700)
    begun = script.with_name("spark-submit.begun")
    process = spawn(
        "plan",
        "sales",
        "--out",
        str(tmp_path / "plan"),
        env={**os.environ, "PYTHONPATH": str(SOURCE), "SPARK_HOME": str(script.parents[1])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 120
    while not begun.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    java = psutil.Process(int(begun.read_text()))
    process.send_signal(number)
    out, err = process.communicate()
    assert out == b""
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert err.startswith(b"error: ")
        assert not list((tmp_path / "plan").rglob("*.*"))
    java.wait(timeout=120)

"""The command line as a process of its own: what it loads, pipes, signals and terminals."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reclaim.catalog import Catalog
from reclaim.cli.application import COMMANDS
from tests.cli.conftest import SOURCE, CommandLine, Spawn

HEAVY = {"pyspark", "py4j", "duckdb", "icechunk", "pandas"}


def _loaded(spawn: Spawn, *args: str) -> set[str]:
    """The packages that a command imports."""
    process = spawn(*args, python=("-X", "importtime"))
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()[-500:]
    lines = [line for line in err.decode().splitlines() if line.startswith("import time:")]
    assert len(lines) > 50
    return {line.split("|")[-1].strip().split(".")[0] for line in lines}


def _loaded_commands(*args: str) -> set[str]:
    """The commands whose modules a command imports."""
    script = (
        "import sys; from reclaim.cli.main import main; main(sys.argv[1:]); "
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, env=environment, check=True
    )
    modules = set(done.stderr.decode().splitlines())
    return {name for name in COMMANDS if f"reclaim.cli.commands.{name}" in modules}


def test_help_loads_nothing_heavy(spawn: Spawn) -> None:
    heavy = {*HEAVY, "sqlalchemy", "pyarrow", "numpy", "obstore", "rich"}
    for args in (("--help",), ("ls", "--help")):
        assert not _loaded(spawn, *args) & heavy
    assert not _loaded(spawn, "--version") & {*heavy, "typer", "pydantic"}


def test_a_command_loads_no_other_command() -> None:
    assert _loaded_commands("--version") == set()
    assert _loaded_commands("stage", "--help") == {"stage"}
    assert _loaded_commands("--catalog", "x", "mv", "--help") == {"mv"}


def test_ls_starts_no_spark_and_no_jvm(cli: CommandLine, spawn: Spawn) -> None:
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    cli.ok("commit", "sales/main", "-m", "x")
    loaded = _loaded(spawn, "ls", "sales/main")
    assert "sqlalchemy" in loaded
    # Nor `pydoc`, of all that the functions of Arrow load.
    assert not loaded & {*HEAVY, "psycopg", "pydoc"}


def test_looking_at_runs_starts_no_spark(
    cli: CommandLine, spawn: Spawn, tmp_path: Path, plain: None
) -> None:
    out = str(tmp_path / "plan")
    cli.ok("plan", "sales", "--out", out)
    for args in (("show", out, "--objects"), ("runs",), ("doctor",)):
        assert not _loaded(spawn, *args) & {"pyspark", "py4j"}, args


def test_exit_codes_reach_the_shell(cli: CommandLine, spawn: Spawn) -> None:
    for args, code in (
        (("repo", "list"), 0),
        (("ls", "--unknown"), 2),
        (("ls", "none"), 3),
        (("repo", "create", "sales"), 4),
        (("repo", "delete", "sales"), 6),
    ):
        process = spawn(*args)
        _, err = process.communicate()
        assert process.returncode == code, args
        assert bool(err) == bool(code), args


@pytest.mark.parametrize("args", [("log", "sales"), ("log", "sales", "--json"), ("--help",)])
def test_a_broken_pipe_is_quiet(cli: CommandLine, spawn: Spawn, args: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    process = spawn(*args, stdout=write)
    os.close(write)
    _, err = process.communicate()
    assert err == b""
    assert process.returncode == 141


@pytest.mark.parametrize("args", [("log", "sales"), ("log", "sales", "--json")])
def test_a_full_disk_under_stdout(cli: CommandLine, spawn: Spawn, args: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        process = spawn(*args, stdout=full)
        _, err = process.communicate()
    assert process.returncode == 5
    assert err.startswith(b"error: No space left on device\n")
    assert b"Exception" not in err


def test_a_name_that_is_not_unicode(cli: CommandLine, spawn: Spawn, tmp_path: Path) -> None:
    broken = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(broken).write_bytes(b"x")
    process = spawn("put", broken, "sales/main/fine")
    assert process.communicate() == (b"Put fine (1 B) on main.\n", b"")
    process = spawn("get", "sales/main/fine", broken + "2")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert b"\\udcff2" in out


def test_ctrl_c_in_an_upload(cli: CommandLine, spawn: Spawn, location: Path) -> None:
    process = spawn(
        "put",
        "-",
        "sales/main/x",
        stdin=subprocess.PIPE,
        # A test runner in the background may ignore the signal, and its children with it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until = time.monotonic() + 30
    while not list(location.glob("objects/repos/*/_reclaim/epoch/*")):
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.startswith(b"error: interrupted; ")
    assert cli.ok("ls", "sales/main").out == ""


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, spawn: Spawn, *args: str, columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        env = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "COLUMNS": str(columns),
            "TERM": "xterm-256color",
        }
        self.process = spawn(*args, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read(self) -> str:
        """All that it shows until it ends."""
        shown = b""
        while True:
            try:
                piece = os.read(self._master, 65_536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        self.process.wait()
        os.close(self._master)
        return shown.decode()


def test_tables_on_a_terminal_have_a_head(cli: CommandLine, spawn: Spawn) -> None:
    cli.ok("put", "-", "sales/main/a[red].txt", stdin=b"x")
    shown = Terminal(spawn, "ls", "sales/main").read()
    assert "created (UTC)" in shown
    assert "a[red].txt" in shown
    assert "\x1b[1" in shown
    assert "created" in cli.ok("ls", "sales/main").out
    assert "created" not in cli.ok("ls", "sales/main", "--no-header").out
    assert "created" not in Terminal(spawn, "--no-header", "ls", "sales/main").read()


def test_tables_on_80_columns(cli: CommandLine, catalog: Catalog, spawn: Spawn) -> None:
    repo = catalog.repository("sales")
    main = repo.branch("main")
    for number in range(6):
        main.put("a", str(number).encode())
        main.commit(f"Commit {number} of many, with more to say than a table shows of it")
    rules = ("--keep-last", "1", "--keep-weekly", "1")
    cli.ok("gc", "sales", "--history-only", "--keep-last", "4")
    for number in range(4):
        repo.create_branch(f"feature/number-{number}", f"main~{number}")
    cli.ok("policy", "set", "sales", *rules)
    [run] = cli.ok("runs", "sales", "--json").json["runs"]
    shown = Terminal(spawn, "runs", "sales", columns=80).read()
    assert f"\r\n{run['id'][:12]}  expire  done   " in shown
    assert "    edited the history (" in shown
    assert "finished_at" not in shown
    cli.ok("plan", "sales", "--history-only", *rules)
    for command in ("show latest --all", "policy explain sales --all"):
        lines = Terminal(spawn, *command.split(), columns=80).read().splitlines()
        ids = {commit.id[:12] for commit in repo.log("main")}
        rows = [n for n, line in enumerate(lines) if line[:12] in ids]
        assert rows
        for row in rows:
            assert re.match(r"[0-9a-f]{12}  \d{4}-\d\d-\d\d \d\d:\d\d  ", lines[row]), lines
            assert max(map(len, lines[row : row + 2])) <= 80, lines
            assert not any(line.startswith("    ") for line in lines[row + 2 : row + 3]), lines


def test_a_folder_upload_shows_progress(cli: CommandLine, spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number in range(20):
        (tmp_path / "folder" / str(number)).write_bytes(bytes(1000))
    terminal = Terminal(spawn, "put", "-r", str(tmp_path / "folder"), "sales/main")
    shown = terminal.read()
    assert terminal.process.returncode == 0
    assert "Uploading" in shown
    assert "20/20 objects" in shown
    assert "Put 20 objects (19.5 KiB) on main." in shown


def test_a_plan_shows_its_stages_and_nothing_of_sparks(cli: CommandLine, spawn: Spawn) -> None:
    cli.ok("put", "-", "sales/main/a", stdin=b"x")
    shown = Terminal(spawn, "plan", "sales").read()
    assert "start Spark" in shown
    assert " objects" in shown
    assert "To delete" in shown or "no need to apply" in shown
    for noise in ("WARN", "log4j", "org.apache", "Exception"):
        assert noise not in shown


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 6), ("", 6), ("\x04", 6)])
def test_repo_delete_asks_on_a_terminal(
    cli: CommandLine, spawn: Spawn, answer: str, code: int
) -> None:
    terminal = Terminal(spawn, "repo", "delete", "sales")
    terminal.type(answer + "\n")
    shown = terminal.read()
    assert "Really delete the repository sales with all its history? [y/N]" in shown
    assert terminal.process.returncode == code
    assert bool(cli.ok("repo", "list", "--json").json["repositories"]) == bool(code)

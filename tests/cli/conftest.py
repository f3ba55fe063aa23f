"""A command line to call in this process or in one of its own, on a real catalog in a folder."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import reclaim
from reclaim.catalog import Catalog
from reclaim.cli.main import main
from reclaim.cli.progress.watching import MinuteLines
from tests.support.json_schema import check_answer

SOURCE = Path(reclaim.__file__).resolve().parents[1]


@dataclass(frozen=True)
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return self.json["error"]


class CommandLine:
    """Calls ``main`` in this process. The catalog is named by the environment."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capture = capture
        self._patch = patch
        # However slow the machine is: the line a minute has tests of its own.
        patch.setattr(MinuteLines, "every", 3_600.0)

    def __call__(self, *args: str, stdin: bytes = b"") -> Result:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = main(args)
        captured = self._capture.readouterr()
        if "--json" in args and captured.out:
            check_answer(args, json.loads(captured.out))
        return Result(code, captured.out, captured.err)

    def ok(self, *args: str, stdin: bytes = b"") -> Result:
        """A call that must succeed and say nothing on stderr."""
        result = self(*args, stdin=stdin)
        assert result.code == 0, result
        assert result.err == "", result
        return result

    def fails(self, kind: str, code: int, *args: str, stdin: bytes = b"") -> Any:
        """A call that must fail alike in text and in JSON; returns the error's document."""
        text = self(*args, stdin=stdin)
        assert text.code == code, text
        assert text.out == "", text
        coded = self(*args, "--json", stdin=stdin)
        assert (coded.code, coded.error["kind"]) == (code, kind), coded
        assert coded.err == "", coded
        assert set(coded.error) == {"kind", "message", "hint", "details"}
        assert text.err.startswith("error: ")
        assert ("\nhint: " in text.err) == bool(coded.error["hint"])
        return coded.error


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty catalog, which every command finds."""
    folder = tmp_path / "catalog"
    Catalog.init(folder).close()
    monkeypatch.setenv("RECLAIM_CATALOG", str(folder))
    monkeypatch.delenv("RECLAIM_DEBUG", raising=False)
    return folder


@pytest.fixture
def bare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line without a catalog."""
    monkeypatch.delenv("RECLAIM_CATALOG", raising=False)
    monkeypatch.delenv("RECLAIM_DEBUG", raising=False)
    return CommandLine(capsys, monkeypatch)


@pytest.fixture
def cli(
    location: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """A command line with a catalog that has a repository ``sales``."""
    line = CommandLine(capsys, monkeypatch)
    line.ok("repo", "create", "sales")
    return line


@pytest.fixture
def catalog(location: Path) -> Iterator[Catalog]:
    """The same catalog, opened beside the command line."""
    with Catalog.open(location) as opened:
        yield opened


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, where what Spark does is not the question."""
    monkeypatch.setenv("RECLAIM_ENGINE", "local")


Spawn = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def spawn() -> Spawn:
    """Starts the command line as a process of its own."""

    def start(*args: str, python: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, *python, "-m", "reclaim.cli.main", *args]
        # On Spark, also where the command line in this process does without.
        inherited = {name: each for name, each in os.environ.items() if name != "RECLAIM_ENGINE"}
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            # Where output is not buffered, what is left in a buffer cannot be tested.
            "env": {**inherited, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": ""},
            # A test runner in the background may ignore Ctrl-C, and its children with it.
            "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        }
        return subprocess.Popen(command, **{**settings, **options})

    return start

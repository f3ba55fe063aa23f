"""Completion in shells: bash as it runs here, the others by what they would ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import shellingham  # type: ignore[import-untyped]

from tests.cli.conftest import SOURCE, CommandLine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with ``reclaim`` on the path."""
    program = tmp_path / "bin" / "reclaim"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m reclaim.cli.main "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    return tmp_path


def completed(home: Path, script: Path, *words: str) -> list[str]:
    line = " ".join(f"'{word}'" for word in ("reclaim", *words))
    ask = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
        "_reclaim_completion reclaim; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask], capture_output=True, text=True, check=True, cwd=home
    )
    return done.stdout.split()


@pytest.fixture
def in_shell(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets typer find the named shell, as if the command were called from there."""
    return lambda shell: monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, shell))


def test_bash(bare: CommandLine, home: Path, in_shell: Callable[[str], None]) -> None:
    in_shell("bash")
    said = bare.ok("--install-completion")
    script = home / ".bash_completions" / "reclaim.sh"
    assert str(script) in said.out
    assert str(script) in (home / ".bashrc").read_text()
    bare.ok("--install-completion")
    assert (home / ".bashrc").read_text().count(str(script)) == 1
    assert completed(home, script, "le") == ["lease"]
    assert completed(home, script, "lease", "") == ["hold", "list", "release"]
    assert "--holder" in completed(home, script, "lease", "release", "--")


@pytest.mark.parametrize(
    ("shell", "file"),
    [("zsh", ".zfunc/_reclaim"), ("fish", ".config/fish/completions/reclaim.fish")],
)
def test_other_shells(
    bare: CommandLine, home: Path, in_shell: Callable[[str], None], shell: str, file: str
) -> None:
    in_shell(shell)
    assert str(home / file) in bare.ok("--install-completion").out
    script = bare.ok("--show-completion").out
    assert (home / file).read_text().strip() == script.strip()
    environment = {
        "_RECLAIM_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "reclaim le",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        ["reclaim"], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert "lease" in done.stdout


def test_a_shell_that_typer_does_not_know(
    bare: CommandLine, home: Path, in_shell: Callable[[str], None]
) -> None:
    in_shell("tcsh")
    assert bare("--install-completion").code == 1

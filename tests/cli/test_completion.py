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


@pytest.fixture
def ask(cli: CommandLine, home: Path) -> Callable[..., list[str]]:
    """Ask for the completion of a line, as bash does."""

    def ask(*words: str, **environment: str) -> list[str]:
        asked = {
            "_RECLAIM_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(("reclaim", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(
            ["reclaim"],
            env={**os.environ, **asked, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def test_names_of_repositories_and_refs(cli: CommandLine, ask: Callable[..., list[str]]) -> None:
    cli.ok("branch", "create", "sales/fix%2Fone", "main")
    cli.ok("tag", "create", "sales/v1", "main")
    refs = ["sales/fix%2Fone", "sales/main", "sales/v1"]
    assert ask("plan", "") == ["sales"]
    assert ask("gc", "s", "") == []
    assert ask("apply", "latest", "--store", "s") == ["sales"]
    assert ask("policy", "explain", "sales", "") == ["fix/one", "main", "v1"]
    # With a single repository its refs, so that a shell adds no space after the name.
    assert ask("log", "s") == ask("ls", "") == ask("log", "sales/") == refs
    assert ask("get", "sales/m") == ["sales/main"]
    assert ask("diff", "sales/fix%2F") == refs[:1]
    assert ask("commit", "sales/") == refs[:2]
    assert ask("ls", "sales/main/") == []
    cli.ok("repo", "create", "stock")
    assert ask("ls", "s") == ["sales/", "stock/"]
    assert ask("plan", "x") == []


def test_names_of_runs_and_plans(
    cli: CommandLine, plain: None, ask: Callable[..., list[str]]
) -> None:
    assert ask("undo", "") == ask("show", "") == []
    first, second = (
        cli.ok("plan", "sales", "--min-age", "0", "--json").json["run"] for _ in range(2)
    )
    cli.ok("apply", first, "--yes")
    assert ask("show", "") == ["latest", second[:12], first[:12]]
    assert ask("apply", first[:5]) == [first[:12]]
    assert ask("apply", first[:13]) == [first]
    assert ask("undo", "") == ask("purge", "--run", "") == ["latest", first[:12]]


def test_completion_says_nothing_about_errors(
    ask: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert ask("plan", "", RECLAIM_CATALOG=str(tmp_path / "none")) == []
    assert ask("--catalog", str(tmp_path / "none"), "plan", "") == []
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "catalog.db").write_bytes(b"damaged" * 1000)
    assert ask("plan", "", RECLAIM_CATALOG=str(tmp_path / "damaged")) == []
    assert ask("show", "", RECLAIM_CATALOG="postgresql://localhost:1/none") == []


def test_completion_loads_no_library_of_storages(cli: CommandLine) -> None:
    program = (
        "import os, sys; from reclaim.catalog.completion import CatalogNames\n"
        "with CatalogNames.open(os.environ['RECLAIM_CATALOG']) as names:\n"
        "    assert names.repositories('') == ['sales']\n"
        "print([one for one in ('pyarrow', 'obstore', 'pyspark') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"

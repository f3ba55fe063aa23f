"""Help and the options that every command has."""

from __future__ import annotations

import pytest

from reclaim import __version__
from reclaim.cli.config.settings import SETTINGS
from reclaim.cli.views import exits
from reclaim.errors import ReclaimError
from tests.cli.commands import ALL, LEAVES
from tests.cli.conftest import CommandLine


def all_errors(root: type[ReclaimError] = ReclaimError) -> list[type[ReclaimError]]:
    return [root, *(found for child in root.__subclasses__() for found in all_errors(child))]


def test_the_commands_of_the_issue_are_there() -> None:
    single = (
        "init demo put get ls rm cp mv stage commit merge diff log reset revert clean reap "
        "plan show apply gc runs undo purge doctor"
    )
    grouped = {(group, verb) for group in ("repo", "branch", "tag") for verb in VERBS}
    leases = {("lease", verb) for verb in ("hold", "list", "release")}
    leases |= {("lock", "release")}
    settings = {("config", "show"), ("help",), ("repo", "show"), ("repo", "set")}
    policies = {("policy", verb) for verb in ("set", "get", "unset", "validate", "explain")}
    lifecycle = {("lifecycle", verb) for verb in ("set", "get", "unset", "history")}
    groups = grouped | leases | settings | policies | lifecycle
    assert set(LEAVES) == {(name,) for name in single.split()} | groups


VERBS = ("create", "list", "delete")


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_help_has_a_line_on_exit_codes(bare: CommandLine, name: tuple[str, ...]) -> None:
    shown = bare.ok(*name, "--help").out
    assert shown.splitlines()[-1].strip() == exits.EPILOG
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert bare.ok(*name, "-h").out == shown
    assert bare.ok("help", *name).out == shown


@pytest.mark.parametrize("name", [(), *(name for name in ALL if name not in LEAVES and name)])
def test_help_on_80_columns_cuts_nothing(
    bare: CommandLine, name: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, *lines = bare.ok(*name, "--help").out.splitlines()
    assert not [line for line in lines if line.endswith("...")]
    assert max(map(len, lines)) <= 80


def test_the_topic_of_exit_codes_has_every_code_and_every_kind(bare: CommandLine) -> None:
    rows = bare.ok("help", "exit-codes", "--json").json["rows"]
    assert {row["code"] for row in rows} == {0, exits.INTERRUPTED, exits.TERMINATED} | {
        error.exit_code for error in all_errors()
    }
    for error in all_errors():
        [row] = [row for row in rows if row["code"] == error.exit_code]
        assert error.kind in row["kinds"]
    text = bare.ok("help", "exit-codes").out
    assert all(error.kind in text for error in all_errors())


def test_topics(bare: CommandLine) -> None:
    assert "main@2026-10-31" in bare.ok("help", "refs").out
    settings = bare.ok("help", "settings").out
    assert all(setting.variable in settings for setting in SETTINGS)
    bare.fails("not_found", 3, "help", "nothing")
    bare.fails("not_found", 3, "help", "lease", "nothing")


@pytest.mark.parametrize("name", ALL, ids=" ".join)
def test_every_command_takes_the_global_options(bare: CommandLine, name: tuple[str, ...]) -> None:
    shown = bare.ok(*name, "--help").out
    assert "--catalog PLACE" in shown
    assert "--json" in shown


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_every_command_says_what_it_does(bare: CommandLine, name: tuple[str, ...]) -> None:
    usage, _, rest = bare.ok(*name, "--help").out.partition("\n\n")
    assert usage.startswith(f"Usage: reclaim {' '.join(name)} ")
    assert rest.partition("\n\n")[0].strip().endswith(".")


@pytest.mark.parametrize("name", [(), ("repo",), ("branch",), ("tag",)], ids=" ".join)
def test_without_a_command_the_help_is_shown(bare: CommandLine, name: tuple[str, ...]) -> None:
    result = bare(*name)
    assert result.code == 2
    assert result.out == bare.ok(*name, "--help").out
    assert bare(*name, "--json").error["kind"] == "usage"


def test_version(bare: CommandLine) -> None:
    assert bare.ok("--version").out == f"reclaim {__version__}\n"
    assert bare.ok("--version", "--json").json == {"version": __version__}

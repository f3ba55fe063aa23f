"""A rule that matches no ref is a warning wherever something is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

SAID = "the rule for branch mian matches no ref"
POLICY = """
rules:
  - {match: mian, kind: branch, keep_last: 1}
  - {match: ma*, keep_last: 5}
default: {keep_last: 1}
"""


@pytest.fixture
def policy(cli: CommandLine, tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


@pytest.mark.usefixtures("plain")
def test_in_every_plan(cli: CommandLine, policy: str) -> None:
    planned = cli.ok("plan", "sales", "--policy", policy, "--json").json
    assert planned["warnings"] == [SAID]
    assert f"Note: {SAID}." in cli.ok("show", planned["plan"]).out
    [collected] = cli.ok("gc", "sales", "--policy", policy, "--json").json["stores"]
    assert collected["warnings"] == [SAID]
    assert cli.ok("plan", "sales", "--keep-last", "1", "--json").json["warnings"] == []


def test_in_every_expiration(cli: CommandLine, policy: str) -> None:
    asked = ("plan", "sales", "--history-only", "--policy", policy)
    assert cli.ok(*asked, "--json").json["warnings"] == [SAID]
    assert f"Note: {SAID}." in cli.ok(*asked).out

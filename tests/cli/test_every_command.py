"""One story that uses every command, told in text and in JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import LEAVES
from tests.cli.conftest import CommandLine

STORY = """
init {tmp}/other
repo create sales
repo list
put {tmp}/a.csv sales/main/orders/a.csv --content-type text/csv --meta source=shop
put -r {tmp}/folder sales/main/folder
ls sales/main
diff sales/main
commit sales/main -m First --meta ticket=7 --committer ines
get sales/main/orders/a.csv {tmp}/got.csv
get -r sales/main/folder {tmp}/got
tag create sales/v1 main
tag list sales
branch create sales/dev --from v1
branch list sales
cp sales/main/orders/a.csv sales/dev/orders/b.csv
mv sales/dev/orders/b.csv sales/dev/orders/c.csv
rm sales/dev/orders/a.csv
stage sales/dev/outside.csv file://{tmp}/a.csv
commit sales/dev -m Second
merge sales/dev --into main
log sales
diff sales/v1 main
revert sales/main main --parent 1
put {tmp}/a.csv sales/main/x.csv
reset sales/main
lease hold sales/v1 --for 1h --holder nightly
lease list sales
policy set sales --keep-last 1 --keep-merge-bases
policy get sales
policy validate sales --strict
policy explain sales
policy explain sales main --all --reasons
plan sales --history-only --out {tmp}/history
show {tmp}/history --all --reasons
policy unset sales
apply {tmp}/history --yes
gc sales --history-only --keep-last 1
plan sales --keep-last 1 --min-age 0 --out {tmp}/plan
show {tmp}/plan
show {tmp}/plan --objects --limit 3
apply {tmp}/plan --yes
gc sales --min-age 0 --quarantine --keep 1d
plan sales --uncommitted --min-age 0 --out {tmp}/uncommitted
gc sales --uncommitted --min-age 0
lifecycle set sales {tmp}/rules.yaml
lifecycle get sales
plan sales --lifecycle --min-age 0
gc sales --lifecycle --min-age 0
lifecycle history sales
lifecycle unset sales
purge sales --older-than 0d --yes
runs sales
runs
lock release sales
doctor --deep
clean
repo set sales hard_delete=on
repo show sales
reap --once
tag delete sales/v1
branch delete sales/dev
repo delete sales --yes
gc --all --min-age 0
config show
help exit-codes
help lease hold
demo {tmp}/demo
"""

NEED_AN_ID = {("undo",), ("lease", "release")}
"""These are told in test_retention.py, where the ids are known."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_bytes(b"id\n1\n")
    (tmp_path / "rules.yaml").write_text("old:\n  prefix: orders/\n  days: 30\n")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "one.txt").write_bytes(b"1")
    (tmp_path / "folder" / "deep" / "two.txt").write_bytes(b"22")
    return tmp_path


def _lines(tmp: Path) -> list[list[str]]:
    return [line.format(tmp=tmp).split() for line in STORY.strip().splitlines()]


def test_the_story_has_every_command() -> None:
    told = {tuple(line[:2]) for line in _lines(Path())} | {
        tuple(line[:1]) for line in _lines(Path())
    }
    assert set(LEAVES) - NEED_AN_ID <= told


def test_in_text(bare: CommandLine, location: Path, files: Path) -> None:
    for line in _lines(files):
        result = bare.ok(*line)
        assert result.out.endswith("\n"), line
        assert "{" not in result.out, line
        assert "\t" not in result.out, line
        assert "\x1b" not in result.out, line


def test_in_json(bare: CommandLine, location: Path, files: Path, plain: None) -> None:
    for number, line in enumerate(_lines(files)):
        asked = ("--json", *line) if number % 2 else (*line, "--json")
        document = bare.ok(*asked).json
        assert isinstance(document, dict), line
        assert "error" not in document, line

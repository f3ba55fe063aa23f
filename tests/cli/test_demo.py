"""The demonstration, and what its report says against what is really there."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reclaim import demo
from reclaim.catalog import Catalog
from reclaim.engine.local.engine import LocalEngine
from tests.cli.conftest import CommandLine

UNTIL = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, demo.Report]:
    folder = tmp_path_factory.mktemp("demo") / "catalog"
    return folder, demo.run(folder, LocalEngine(), until=UNTIL)


def _data_files(folder: Path) -> list[Path]:
    with Catalog.open(folder) as catalog:
        uid = catalog.repository(demo.REPOSITORY).uid
    return [file for file in folder.glob(f"objects/repos/{uid}/branches/**/*") if file.is_file()]


def test_its_clock_ends_when_it_was_told_to(built: tuple[Path, demo.Report]) -> None:
    folder, report = built
    assert (report.began, report.ended) == (UNTIL - timedelta(days=90), UNTIL)
    times = [datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in _data_files(folder)]
    assert min(times) == report.began
    assert UNTIL - timedelta(days=5) < max(times) <= UNTIL


def test_it_has_what_retention_is_about(built: tuple[Path, demo.Report]) -> None:
    folder, report = built
    with Catalog.open(folder) as catalog:
        repo = catalog.repository(demo.REPOSITORY)
        commits = repo.log()
        assert {ref.name for ref in repo.tags()} == {"v1", "v2"}
        assert {ref.name for ref in repo.branches()} == {"main", "cleanup", "experiment"}
        assert commits[0].written_at - commits[-1].written_at > timedelta(days=80)
        kinds = {change.kind.value for change in repo.diff("v1", "v2")}
        assert kinds == {"added", "changed", "removed"}
        assert len(list(repo.branch("experiment").uncommitted())) == 3
        assert report.commits == len(commits) + 1 + report.released  # one on experiment
        assert report.refs == 5
        assert report.released > 20
    assert report.tokens_expired == 1


def test_every_object_is_counted_once(built: tuple[Path, demo.Report]) -> None:
    folder, report = built
    files = _data_files(folder)
    left = report.after.kinds[demo.DATA]
    assert (left.objects, left.bytes) == (len(files), sum(f.stat().st_size for f in files))
    for picture in (report.before, report.expired, report.after):
        counted = sum(tally.objects for tally in picture.reasons.values())
        kinds = (picture.kinds[demo.DATA], picture.kinds[demo.CONTAINERS])
        assert counted == sum(tally.objects for tally in kinds)
        assert list(picture.kinds) == list(demo.KINDS)
        assert list(picture.reasons) == list(demo.REASONS)


def test_what_nothing_reaches_is_exactly_what_the_story_lost(
    built: tuple[Path, demo.Report],
) -> None:
    _, report = built
    spike = 8 + 2 + 5  # committed samples, the range and metarange of that commit, staged ones
    overwritten, reset = 1, 1
    assert report.before.reasons[demo.UNREACHED].objects == spike + overwritten + reset
    assert report.before.reasons[demo.OLD].objects > 100
    assert report.expired.reasons[demo.STAGED].objects == 3
    assert report.expired.reasons[demo.PENDING] == demo.Amount(1, 60_000)
    assert report.expired.reasons[demo.SHOWN].objects > 50

    # Every commit that is let go takes its metarange at least with it.
    freed = report.before.reasons[demo.OLD].objects - report.expired.reasons[demo.OLD].objects
    gained = report.expired.reasons[demo.UNREACHED].objects - spike - overwritten - reset
    assert freed == gained >= report.released


def test_expiring_deletes_nothing(built: tuple[Path, demo.Report]) -> None:
    _, report = built
    for kind in (demo.DATA, demo.CONTAINERS):
        assert report.before.kinds[kind] == report.expired.kinds[kind]
    # Each apply writes the epoch of the storage anew.
    before, expired = (shown.kinds[demo.BOOKKEEPING] for shown in (report.before, report.expired))
    assert before.objects == expired.objects


def test_collecting_takes_what_nothing_reaches_and_nothing_else(
    built: tuple[Path, demo.Report],
) -> None:
    _, report = built
    before, after = report.expired.reasons, report.after.reasons
    abandoned = before[demo.PENDING].objects
    assert sum(one.objects for one in report.going.values()) == (
        before[demo.UNREACHED].objects + abandoned
    )
    assert after[demo.UNREACHED] == after[demo.PENDING] == demo.Amount()
    for reason in (demo.SHOWN, demo.OLD, demo.STAGED):
        assert before[reason] == after[reason]
    assert report.read_back == report.after.kinds[demo.DATA]
    assert report.collected == report.released + 1  # and the one of the deleted branch


def test_the_cleaner_takes_the_rows_of_the_deleted_branch(
    built: tuple[Path, demo.Report],
) -> None:
    _, report = built
    assert report.rows_cleaned == 5
    assert (report.before.rows, report.expired.rows) == (8, 3)


def test_on_the_command_line(
    bare: CommandLine, tmp_path: Path, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new"
    path = os.defpath
    monkeypatch.setenv("PATH", path)
    said = bare.ok("demo", str(folder)).out
    assert "\nerror: commit " in said
    assert "was removed by run " in said
    assert re.search(r"apply   moved (3 objects \(.*\)) to quarantine\.\nundo    .* \1\.", said)
    assert f"Built a catalog in {folder}\n" in said
    assert "The clock is simulated" in said
    assert "no referenced object was lost" in said
    _, _, commands = said.partition("\nTry:\n")
    first, *lines = commands.splitlines()
    assert len(lines) == 6
    assert len(said.splitlines()) <= 40
    for line in lines:
        assert line.startswith("  reclaim "), line
        # A shell that knows neither the environment nor the folder of this one.
        fresh = ["env", "-i", f"PATH={path}", "sh", "-c", f"{first}\n{line}"]
        shown = subprocess.run(fresh, cwd="/", capture_output=True, text=True, timeout=120)
        assert (shown.returncode, shown.stderr) == (0, ""), line
        assert shown.stdout
    bare.fails("already_exists", 4, "demo", str(folder))
    # A person can go on from there with the machine's own clock.
    where = ("--catalog", str(folder))
    bare.ok("commit", "sales/experiment", "-m", "Keep the leftovers", *where)


def test_in_json(
    bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: None
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    document = bare.ok("demo", "--json").json
    assert Path(document["catalog"]).parent == tmp_path
    assert Path(document["catalog"]).is_dir()
    assert "simulated" in document["clock"]
    assert document["bytes_deleted"] > 1_000_000
    assert len(document["try"]) == 7
    assert document["read_back"] == document["after"]["kinds"]["data"]

"""The demonstration, and what its report says against what is really there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reclaim import demo
from reclaim.catalog import Catalog
from reclaim.policy import from_options
from reclaim.run.expire import plan_expire
from tests.cli.conftest import CommandLine

UNTIL = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, demo.Report]:
    folder = tmp_path_factory.mktemp("demo") / "catalog"
    return folder, demo.run(folder, until=UNTIL)


def _data_files(folder: Path) -> list[Path]:
    return [file for file in folder.glob("objects/repos/*/branches/**/*") if file.is_file()]


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
        repo.undo(report.run)
        commits = repo.log()
        assert {ref.name for ref in repo.tags()} == {"v1", "v2"}
        assert {ref.name for ref in repo.branches()} == {"main", "cleanup", "experiment"}
        assert sum(len(commit.parents) > 1 for commit in commits) == 2
        assert commits[0].written_at - commits[-1].written_at > timedelta(days=80)
        kinds = {change.kind.value for change in repo.diff("v1", "v2")}
        assert kinds == {"added", "changed", "removed"}
        assert len(list(repo.branch("experiment").uncommitted())) == 3
        assert report.commits == len(commits) + 1  # the one on experiment
        assert report.refs == 5
        expired = plan_expire(repo, from_options(keep_last=demo.LAST, keep_weekly=demo.WEEKS))
        assert len(expired.released()) == report.released > 20
    assert report.tokens_expired == 1


def test_every_object_is_counted_once(built: tuple[Path, demo.Report]) -> None:
    folder, report = built
    files = _data_files(folder)
    for picture in (report.before, report.after):
        data = picture.kinds[demo.DATA]
        assert (data.objects, data.bytes) == (len(files), sum(f.stat().st_size for f in files))
        containers = picture.kinds[demo.CONTAINERS]
        counted = sum(tally.objects for tally in picture.reasons.values())
        assert counted == data.objects + containers.objects
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
    assert report.after.reasons[demo.STAGED].objects == 3
    assert report.after.reasons[demo.PENDING] == demo.Tally(1, 60_000)
    assert report.after.reasons[demo.SHOWN].objects > 50

    # Every commit that is let go takes its metarange at least with it.
    freed = report.before.reasons[demo.OLD].objects - report.after.reasons[demo.OLD].objects
    gained = report.after.reasons[demo.UNREACHED].objects - spike - overwritten - reset
    assert freed == gained >= report.released


def test_nothing_is_deleted(built: tuple[Path, demo.Report]) -> None:
    _, report = built
    for kind in (demo.DATA, demo.CONTAINERS, demo.BOOKKEEPING):
        assert report.before.kinds[kind] == report.after.kinds[kind]
    assert report.before.kinds[demo.EXPORTS] == demo.Tally()
    assert report.after.kinds[demo.EXPORTS].objects == 14


def test_the_cleaner_takes_the_rows_of_the_deleted_branch(
    built: tuple[Path, demo.Report],
) -> None:
    _, report = built
    assert report.rows_cleaned == 5
    assert (report.before.rows, report.after.rows) == (8, 3)


def test_on_the_command_line(bare: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    said = bare.ok("demo", str(folder)).out
    assert f"Built a catalog in {folder}\n" in said
    assert "The clock is simulated" in said
    assert "No bytes were deleted" in said
    _, _, commands = said.partition("\nTry:\n")
    lines = [line.split()[1:] for line in commands.splitlines()]
    assert len(lines) == 4
    for line in lines:
        assert bare.ok(*line).out
    bare.fails("already_exists", 4, "demo", str(folder))
    # A person can go on from there with the machine's own clock.
    where = ("--catalog", str(folder))
    bare.ok("commit", "sales/experiment", "-m", "Keep the leftovers", *where)


def test_in_json(bare: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    document = bare.ok("demo", "--json").json
    assert Path(document["catalog"]).parent == tmp_path
    assert Path(document["catalog"]).is_dir()
    assert "simulated" in document["clock"]
    assert document["bytes_deleted"] == 0
    assert len(document["try"]) == 4
    assert document["before"]["kinds"]["data"] == document["after"]["kinds"]["data"]

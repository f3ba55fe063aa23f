"""``icechunk:PATH`` on the command line: expiring by rules, explaining them, old backups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reclaim.ids import short
from tests.cli.conftest import CommandLine, bare, plain
from tests.icechunk.repositories import FIRST, WrittenRepository, bucket_storage
from tests.icechunk.trees import SampleTree
from tests.support.servers import SeaweedFS

__all__ = ["bare", "plain"]

pytestmark = pytest.mark.usefixtures("plain")


@pytest.fixture
def tree(written: WrittenRepository) -> SampleTree:
    return SampleTree(written)


@pytest.fixture
def bound(tree: SampleTree) -> str:
    return tree.bound.isoformat()


def test_expire_by_age(bare: CommandLine, tree: SampleTree, bound: str, spec: int) -> None:
    name = f"icechunk:{tree.written.folder}"
    shown = bare.ok("plan", name, "--history-only", "--older-than", bound, "--json").json
    released = {one["commit"] for one in shown["commits"]["listed"]}
    assert {tree.number(one) for one in released} == {1, 2, 4, 6, 7}
    assert (shown["expired"], shown["history"]["released"]) == (7, 5)
    lines = tree.lines()
    text = bare.ok("plan", name, "--history-only", "--older-than", bound).out
    assert "7 snapshots lose their rule; 2 of them stay because " in text
    assert tree.lines() == lines
    [done] = bare.ok("gc", name, "--history-only", "--older-than", bound, "--json").json["stores"]
    assert (done["state"], done["released"], done["objects"]) == ("done", 5, 0)
    assert tree.lines() != lines
    [run] = bare.ok("runs", name, "--json").json["runs"]
    assert (run["kind"], run["state"]) == ("expire", "done")
    [again] = bare.ok("gc", name, "--history-only", "--older-than", bound, "--json").json["stores"]
    assert (again["state"], again["run"], again["released"]) == ("nothing", None, 0)
    if spec == 1:
        refused = bare.fails("refused", 6, "undo", done["run"], "--store", name)
        assert "cannot be reverted" in refused["message"]
        return
    back = bare.ok("undo", done["run"], "--store", name).out
    assert f"Undid run {short(done['run'])}" in back
    assert tree.lines() == lines


def test_the_way_back_is_told(bare: CommandLine, tree: SampleTree, bound: str, spec: int) -> None:
    name = f"icechunk:{tree.written.folder}"
    text = bare.ok("gc", name, "--history-only", "--older-than", bound, "--delete-expired-tags").out
    assert "deleted refs: tag1" in text
    if spec == 1:
        assert "which cannot be undone" in text
    else:
        assert f"--store {name}" in text


def test_gc_by_age(bare: CommandLine, tree: SampleTree, bound: str, spec: int) -> None:
    name = f"icechunk:{tree.written.folder}"
    [done] = bare.ok("gc", name, "--older-than", bound, "--json").json["stores"]
    assert (done["state"], done["released"], done["unplanned"], done["spared"]) == ("done", 5, 0, 0)
    assert tree.files() == {0, 3, 5, *range(8, 15)}
    bare.ok("doctor", name, "--deep")
    undone = bare.ok("undo", done["run"], "--store", name, "--json").json
    assert undone["restored"] == 5
    assert tree.files() == set(range(15))
    assert bool(undone["left"]) == (spec == 1)


def test_rules_beyond_the_library(bare: CommandLine, tree: SampleTree, spec: int) -> None:
    name = f"icechunk:{tree.written.folder}"
    if spec == 1:
        refused = bare.fails("refused", 6, "gc", name, "--history-only", "--keep-last", "2")
        assert "does not support keep_last 2" in refused["message"]
        assert "older_than" in refused["hint"]
        bare.fails("refused", 6, "gc", name, "--keep-last", "2")
        bare.fails(
            "refused", 6, "gc", name, "--history-only", "--older-than", "1d", "--ref", "main"
        )
        return
    [done] = bare.ok("gc", name, "--history-only", "--keep-last", "2", "--json").json["stores"]
    assert done["released"] == 3
    bare.ok("undo", done["run"], "--store", name)


def test_a_policy_is_kept_and_explained(bare: CommandLine, tree: SampleTree, bound: str) -> None:
    name = f"icechunk:{tree.written.folder}"
    bare.ok("policy", "set", name, "--older-than", bound)
    assert "older_than" in bare.ok("policy", "explain", name).out
    shown = bare.ok("plan", name, "--history-only", "--json").json
    assert (shown["policy_source"], shown["history"]["released"]) == ("stored", 5)


def test_a_plan_shows_the_history(bare: CommandLine, tree: SampleTree, bound: str) -> None:
    name = f"icechunk:{tree.written.folder}"
    made = bare.ok("plan", name, "--older-than", bound, "--json").json
    assert made["library_edit"] == {
        "delete_expired_tags": False,
        "delete_expired_branches": False,
    }
    shown = bare.ok("show", made["plan"], "--all", "--json").json["commits"]
    assert (shown["going"], shown["kept"]) == (5, 10)
    reasons = {tree.number(one["commit"]): one["reasons"] for one in shown["listed"]}
    assert set(reasons) == set(range(15))
    assert all(reasons.values())


def test_people_read_of_snapshots(bare: CommandLine, tree: SampleTree, bound: str) -> None:
    """Commits are what the catalog has. In JSON the names of fields are the same for all."""
    name = f"icechunk:{tree.written.folder}"
    bare.ok("lease", "hold", name, tree.ids[6])
    made = bare.ok("plan", name, "--history-only", "--older-than", bound, "--json").json
    said = [bare.ok("show", made["plan"], "--all", "--reasons").out]
    bare.ok("policy", "set", name, "--older-than", bound)
    said.append(bare.ok("policy", "explain", name, "--all").out)
    made = bare.ok("plan", name, "--older-than", bound, "--delete-expired-tags", "--json").json
    said.append(bare.ok("show", made["plan"], "--all", "--reasons").out)
    applied = bare.ok("apply", made["plan"], "--store", name, "--yes")
    said += [applied.out, *(bare.ok(word, name).out for word in ("runs", "doctor", "plan"))]
    said.append(bare.ok("lease", "list", name).out)
    said.append(bare.ok("undo", made["run"], "--store", name).out)
    # To commit is what writers do.
    text = "\n".join(said).replace("An unfinished commit", "").replace("no commits", "")
    assert "root snapshot (always kept)" in text
    assert "its snapshots expire under the policy" in text
    assert "an ancestor of a snapshot that a lease is on" in text
    assert not re.findall(r".*\bcommits?\b.*", text)


def test_old_backups(bare: CommandLine, tree: SampleTree, spec: int) -> None:
    name = f"icechunk:{tree.written.folder}"
    if spec == 1:
        bare.fails("invalid_input", 2, "plan", name, "--old-backups")
        return
    made = bare.ok("plan", name, "--old-backups", "--min-age", "0s", "--json").json
    assert {one["kind"] for one in made["going"]} == {"old backup"}
    bare.ok("apply", made["plan"], "--store", name, "--yes", "--no-quarantine")
    tree.written.reopened().write(20)


def test_in_a_bucket(
    bare: CommandLine, s3: SeaweedFS, spec: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library finds the bucket, and its keys, by what the environment says."""
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    bucket = s3.new_bucket()

    written = WrittenRepository.create(tmp_path, spec, storage=bucket_storage(s3, bucket))
    ids = [written.write(value) for value in range(3)]
    tip = next(written.repository.ancestry(branch="main"))
    name = f"icechunk:{bucket}/data/repository"
    asked = ("--older-than", tip.written_at.isoformat(), "--min-age", "0s")
    [done] = bare.ok("gc", name, *asked, "--json").json["stores"]
    assert (done["released"], done["condemned"], done["unplanned"]) == (2, 2, 0)
    repository = written.reopened().repository
    assert [info.id for info in repository.ancestry(branch="main")] == [ids[2], FIRST]
    bare.ok("undo", done["run"], "--store", name)
    written.reopened().branch("back", ids[1])

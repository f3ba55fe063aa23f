"""``doctor icechunk:LOCATION``: it finds live objects that are missing, and misses no others."""

from __future__ import annotations

from pathlib import Path

import icechunk
import pytest

from tests.cli.conftest import CommandLine, bare, plain
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository
from tests.icechunk.world import bury

__all__ = ["bare", "plain"]

pytestmark = pytest.mark.usefixtures("plain")


def examined(bare: CommandLine, written: WrittenRepository, *options: str) -> dict[str, str]:
    result = bare("doctor", f"icechunk:{written.folder}", *options, "--json")
    findings = result.json["findings"]
    return {
        finding["check"]: f"{finding['level']}: {finding['sentence']}"
        for finding in findings
        if finding["check"] in ("repository", "objects")
    }


def test_a_repository_that_is_well(
    bare: CommandLine, written: WrittenRepository, spec: int
) -> None:
    bury(written)
    written.repository.create_tag("v1", written.tip())
    said = {"repository": f"ok: spec {spec}, 5 snapshots, 1 branches, 1 tags"}
    assert examined(bare, written) == said
    whole = {**said, "objects": "ok: all objects needed by branches and tags exist"}
    assert examined(bare, written, "--deep") == whole
    assert examined(bare, written, "--deep", "--bytes") == whole


@pytest.mark.parametrize("folder", ["snapshots", "transactions", "manifests", "chunks"])
def test_live_objects_that_are_missing(
    bare: CommandLine, written: WrittenRepository, spec: int, folder: str
) -> None:
    written.write(1)
    before = written.names(folder)
    written.write(2)
    [lost, *_] = sorted(written.names(folder) - before)
    (written.folder / folder / lost).unlink()
    said = examined(bare, written, "--deep")
    # In spec 1 the history itself is in the snapshots.
    check = "repository" if (folder, spec) == ("snapshots", 1) else "objects"
    assert said[check].startswith("problem")
    assert lost in said[check]


def test_a_chunk_that_is_cut_off(bare: CommandLine, written: WrittenRepository) -> None:
    written.write(1)
    [chunk, *_] = sorted(written.names("chunks"))
    (written.folder / "chunks" / chunk).write_bytes(b"")
    said = examined(bare, written, "--deep")["objects"]
    assert f"{chunk} (cut off)" in said


def test_dead_objects_are_not_missed(bare: CommandLine, written: WrittenRepository) -> None:
    dead = bury(written)
    (written.folder / "snapshots" / dead[1]).unlink()
    assert examined(bare, written, "--deep")["objects"].startswith("ok")


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_a_repository_that_is_read_only(bare: CommandLine, tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.repository.set_status(icechunk.RepoStatus(icechunk.RepoAvailability.read_only))
    told = bare("doctor", f"icechunk:{written.folder}", "--json")
    assert told.code == 6
    assert "is read only" in " ".join(one["sentence"] for one in told.json["findings"])

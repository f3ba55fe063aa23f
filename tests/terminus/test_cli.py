"""``terminus:PATH`` on the command line: plan, show, apply, undo, purge, runs and leases."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from reclaim.ids import short
from reclaim.model import SnapshotId
from reclaim.safety import HOUR, SAFETY
from tests.cli.conftest import CommandLine, bare, plain
from tests.support.terminus import StoreWriter, TerminusDatabase

__all__ = ["bare", "plain"]


class Place:
    """A store with a database that lives and one that was deleted, all of it old."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"terminus:{folder}"
        self.write = StoreWriter(folder, written_at=time.time() - 3 * 86_400)
        self.write.server()
        self.lives, self.gone = (TerminusDatabase(self.write, f"admin|{name}") for name in "ab")
        for database in (self.lives, self.gone):
            for number in range(3):
                database.commit([f"value {number}"])
        self.gone.delete()

    @property
    def dead(self) -> set[SnapshotId]:
        return {*self.gone.data, *self.gone.commits, *self.gone.meta}

    def there(self) -> set[str]:
        return {path.name.partition(".")[0] for path in self.folder.glob("???/*")}


@pytest.fixture
def place(tmp_path: Path, plain: None) -> Place:
    return Place(tmp_path / "a store")


def planned(bare: CommandLine, place: Place) -> Any:
    return bare.ok("plan", place.name, "--json").json


def test_the_whole_way(bare: CommandLine, place: Place) -> None:
    before = place.there()
    made = planned(bare, place)
    assert (made["candidates"], made["dead"]) == (9, 9)
    assert made["store"]["kind"] == "terminus"
    assert {group["reason"] for group in made["going"]} == {"deleted database"}
    shown = bare.ok("show", made["plan"], "--json").json
    assert shown.pop("commits")["going"] == made["dead"]
    assert shown | {"commits": None} == made
    listed = bare.ok("show", made["plan"], "--objects", "--json").json["listed"]
    assert {SnapshotId(Path(row["address"]).stem) for row in listed} == place.dead
    assert place.there() == before

    done = bare.ok("apply", made["plan"], "--store", place.name, "--yes", "--json").json
    assert (done["objects"], done["collected"], done["failed"]) == (9, 9, 0)
    assert done["until"].endswith("Z")
    assert place.there() == before - place.dead
    [run] = bare.ok("runs", place.name, "--json").json["runs"]
    assert (run["id"], run["state"], run["quarantine"]) == (done["run"], "done", "moved")

    back = bare.ok("undo", done["run"], "--store", place.name, "--json").json
    assert (back["restored"], back["left"]) == (9, [])
    assert place.there() == before
    # Young again, and so in no plan before tomorrow.
    assert planned(bare, place)["candidates"] == 0


def test_what_a_person_is_told(bare: CommandLine, place: Place) -> None:
    said = bare.ok("plan", place.name).out
    for words in (
        "deleted database",
        "To move them to quarantine: reclaim apply",
        "protected by the margin alone",
        "a running server takes no leases",
    ):
        assert words.lower() in " ".join(said.lower().split()), words
    where = planned(bare, place)["plan"]
    done = " ".join(bare.ok("apply", where, "--store", place.name, "--yes").out.split())
    assert "moved 9 objects" in done
    assert "9 layers" in done
    run = bare.ok("runs", place.name, "--json").json["runs"][0]["id"]
    assert f"reclaim undo {short(run)} --store 'terminus:{place.folder}'" in done
    assert "moved 9 objects" in bare.ok("runs", place.name).out
    assert "No quarantined objects are due" in bare.ok("purge", place.name, "--yes").out
    gone = bare.ok("purge", place.name, "--older-than", "0", "--yes").out
    assert "deleted 9 objects" in gone
    bare.fails("refused", 6, "undo", run, "--store", place.name)


def test_what_is_only_too_young_is_said(bare: CommandLine, tmp_path: Path, plain: None) -> None:
    place = Place(tmp_path / "another")
    for file in place.folder.glob("???/*"):
        if file.name.partition(".")[0] in place.dead:
            os.utime(file)
    made = planned(bare, place)
    assert (made["candidates"], made["too_young"]["objects"]) == (0, 0)
    assert made["too_young"]["snapshots"] > 0
    said = " ".join(bare.ok("plan", place.name).out.split())
    assert "that nothing refers to are too young, and may go from" in said
    assert "nothing would go yet" in said


def test_a_purge_tells_what_came_back(bare: CommandLine, place: Place) -> None:
    where = planned(bare, place)["plan"]
    bare.ok("apply", where, "--store", place.name, "--yes")
    place.write.label("admin|again", place.gone.data[0])
    said = bare.ok("purge", place.name, "--older-than", "0", "--yes").out
    assert "deleted 8 objects" in said
    assert "Restored 1 object" in said
    assert place.gone.data[0] in place.there()


def test_at_once(bare: CommandLine, place: Place) -> None:
    where = planned(bare, place)["plan"]
    bare.fails("refused", 6, "apply", where, "--store", place.name)
    done = bare.ok("apply", where, "--store", place.name, "--yes", "--no-quarantine", "--json").json
    assert done["until"] is None
    assert not place.dead & place.there()
    assert not list(place.folder.glob(".reclaim/quarantine/*"))
    bare.fails("refused", 6, "undo", done["run"], "--store", place.name)


def test_leases(bare: CommandLine, place: Place) -> None:
    layer = place.gone.data[-1]
    held = bare.ok("lease", "hold", place.name, layer, "--for", "1h", "--json").json
    assert held["commit"] == layer
    assert held["id"] in bare.ok("lease", "list", place.name).out
    [told] = bare.ok("lease", "list", place.name, "--json").json["leases"]
    assert (told["id"], told["valid"]) == (held["id"], True)
    made = planned(bare, place)
    assert made["candidates"] == 6
    bare.ok("apply", made["plan"], "--store", place.name, "--yes")
    assert set(place.gone.data) <= place.there()
    error = bare.fails("gone", 9, "lease", "hold", place.name, place.gone.meta[0])
    assert error["details"]["run"]
    bare.ok("lease", "release", place.name, held["id"])
    assert bare.ok("lease", "list", place.name, "--json").json["leases"] == []
    bare.fails("not_found", 3, "lease", "release", place.name, held["id"])
    bare.fails("invalid_input", 2, "lease", "hold", place.name)
    bare.fails("invalid_input", 2, "lease", "hold", place.name, "abc")


def test_refusals(bare: CommandLine, place: Place, tmp_path: Path) -> None:
    before = place.there()
    made = planned(bare, place)
    (place.folder / "STORAGE_VERSION").write_bytes(b"9")
    bare.fails("unknown_version", 6, "plan", place.name)
    bare.fails("unknown_version", 6, "apply", made["plan"], "--store", place.name, "--yes")
    (place.folder / "STORAGE_VERSION").write_bytes(b"2")
    os.truncate(place.folder / place.write.path(place.lives.data[0]), 50)
    error = bare.fails("corrupt", 8, "plan", place.name)
    assert "the label admin|a" in error["message"]
    assert place.there() == before
    bare.fails("not_found", 3, "plan", f"terminus:{tmp_path}/none")
    bare.fails("not_found", 3, "undo", "none", "--store", place.name)


def test_a_plan_does_not_choose_its_store(bare: CommandLine, place: Place, tmp_path: Path) -> None:
    before = place.there()
    made = planned(bare, place)
    error = bare.fails("refused", 6, "apply", made["plan"], "--yes")
    assert f"--store {place.name}" in error["hint"]
    other = Place(tmp_path / "another store")
    untouched = other.there()
    error = bare.fails("plan_refused", 6, "apply", made["plan"], "--store", other.name, "--yes")
    assert str(place.folder) in error["message"].replace("%20", " ")
    assert (place.there(), other.there()) == (before, untouched)
    said = " ".join(bare.ok("plan", place.name).out.split())
    assert f"--store '{place.name}'" in said


def test_missing_layers_are_allowed_by_name_only(bare: CommandLine, place: Place) -> None:
    for layer in place.lives.commits:
        (place.folder / place.write.path(layer)).unlink()
    where = ("--store", place.name, "--yes")
    allowed = "--unsafe-allow-missing-layers"
    bare.fails("incomplete_read", 6, "plan", place.name)
    made = bare.ok("plan", place.name, allowed, "--json").json
    assert [line for line in made["warnings"] if "3 layers named by live layers" in line]
    bare.fails("incomplete_read", 6, "apply", made["plan"], *where)
    bare.ok("apply", made["plan"], *where, allowed)
    bare.fails("incomplete_read", 6, "purge", place.name, "--older-than", "0s", "--yes")
    bare.ok("purge", place.name, "--older-than", "0s", "--yes", allowed)


def test_a_lease_of_a_great_many_weeks(bare: CommandLine, place: Place) -> None:
    layer = place.lives.data[0]
    bare.fails("invalid_input", 2, "lease", "hold", place.name, layer, "--for", "999999w")
    assert bare.ok("lease", "list", place.name, "--json").json == {"leases": []}
    bare.ok("plan", place.name)


def test_a_setting_does_not_weaken_a_store_that_others_write(
    bare: CommandLine, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the margin alone protects what a server is about to label; an option can shorten it."""
    for path in place.folder.glob("???/*"):
        os.utime(path)
    before = place.there()
    monkeypatch.setenv("RECLAIM_MIN_AGE", "0s")
    monkeypatch.setenv("RECLAIM_QUARANTINE", "false")
    monkeypatch.setenv("RECLAIM_KEEP", "0s")
    assert planned(bare, place)["candidates"] == 0
    bare.ok("gc", place.name, "--min-age", "0s")
    [run] = bare.ok("runs", place.name, "--json").json["runs"]
    until = datetime.fromisoformat(run["until"])
    assert until - datetime.fromisoformat(run["started_at"]) >= SAFETY.quarantine - HOUR
    aside = {path.name.partition(".")[0] for path in place.folder.glob(".reclaim/**/*.larch")}
    assert before == place.there() | aside
    assert aside


def test_a_record_that_is_empty_is_named_with_the_way_out(bare: CommandLine, place: Place) -> None:
    where = planned(bare, place)["plan"]
    done = bare.ok("apply", where, "--store", place.name, "--yes", "--json").json
    record = place.folder / ".reclaim/runs" / done["run"] / "run.json"
    record.write_bytes(b"")
    refused = bare("gc", place.name, "--json")
    assert (refused.code, refused.error["kind"]) == (6, "refused")
    assert f"{record} cannot be read: it is empty" in refused.error["message"]
    assert "remove the file, and apply the plan of the run again" in refused.error["hint"]
    examined = bare("doctor", place.name, "--json")
    [problem] = [one for one in examined.json["findings"] if one["level"] == "problem"]
    assert (examined.code, problem["check"]) == (6, "records")
    assert str(record) in problem["sentence"]
    assert problem["hint"] == refused.error["hint"]
    record.unlink()
    bare.ok("apply", where, "--store", place.name, "--yes")
    bare.ok("gc", place.name)
    bare.ok("doctor", place.name)
    assert bare.ok("undo", done["run"], "--store", place.name, "--json").json["restored"] == 9

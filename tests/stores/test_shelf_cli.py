"""``shelf:LOCATION`` on the command line: a store that only its entry point makes known."""

from __future__ import annotations

import json
import os
import shlex
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reclaim.errors import Corrupt
from reclaim.storage import ObjectStorage
from reclaim.testing import FakeClock
from reclaim.urls import normalize
from tests.cli.conftest import SOURCE, CommandLine, Spawn, bare, plain, spawn
from tests.stores.conftest import REGISTERED
from tests.stores.shelf.library import Index, Shelf
from tests.stores.shelf.store import ShelfOpener, ShelfStore

__all__ = ["bare", "plain", "spawn"]

ROOT = Path(__file__).parents[2]
RULES = ("--older-than", "10d", "--min-age", "1h")


class Place:
    """A shelf with two snapshots that are too old, written in real time but for its own clock."""

    def __init__(self, location: str, name: str = "a shelf") -> None:
        self.location = f"{location}/{name}"
        self.name = f"shelf:{self.location}"
        clock = FakeClock(datetime.now(UTC) - timedelta(days=20))
        storage = ObjectStorage.open(normalize(location), create=True)
        self.shelf = Shelf(storage, f"{name}/", clock, Random(3))
        self.shelf.create()
        self.old = [self.shelf.commit("main", {f"a/{one}": b"x" * one}) for one in range(1, 3)]
        clock.advance(days=18)
        self.tip = self.shelf.commit("main", {"a/1": b"young", "b/1": b"young"})
        self.files = self.shelf.files(self.tip)

    def age(self) -> None:
        """Make the files of a folder old; those of a bucket cannot be."""
        past = time.time() - 3 * 86_400
        for path in Path(self.location).glob("[!.]*/*"):
            os.utime(path, (past, past))

    def check(self) -> None:
        assert self.shelf.files(self.tip) == self.files


@pytest.fixture
def place(folder: Path) -> Place:
    made = Place(str(folder))
    made.age()
    return made


def planned(bare: CommandLine, place: Place, *options: str) -> Any:
    return bare.ok("plan", place.name, *(options or RULES), "--json").json


@pytest.mark.usefixtures("plain", "registered")
def test_the_whole_way(bare: CommandLine, place: Place) -> None:
    made = planned(bare, place)
    assert (made["store"]["kind"], made["dead"], made["expired"]) == ("shelf", 2, 2)
    assert made["library_edit"] == {"delete_expired_tags": False, "delete_expired_branches": False}
    kinds = {group["kind"]: group["objects"] for group in made["going"]}
    assert kinds == {"chunk": 1, "manifest": 2, "snapshot": 2, "attributes": 2}
    shown = bare.ok("show", made["plan"], "--json").json
    assert shown.pop("commits")["going"] == made["dead"]
    assert shown | {"commits": None} == made
    said = " ".join(bare.ok("show", made["plan"]).out.split())
    assert "which cannot take that back" in said
    assert f"--store {shlex.quote(place.name)}" in said
    listed = bare.ok("show", made["plan"], "--objects", "--json").json["listed"]
    assert len(listed) == made["candidates"] == 7

    bare.fails("refused", 6, "apply", made["plan"], "--yes")
    done = bare.ok("apply", made["plan"], "--store", place.name, "--yes", "--json").json
    assert (done["objects"], done["collected"], done["failed"]) == (7, 2, 0)
    assert place.shelf.read().snapshots.keys().isdisjoint(place.old)
    [run] = bare.ok("runs", place.name, "--json").json["runs"]
    assert (run["id"], run["state"], run["quarantine"]) == (done["run"], "done", "moved")
    assert bare.ok("doctor", place.name, "--deep", "--json").json["healthy"]

    back = bare.ok("undo", done["run"], "--store", place.name, "--json").json
    assert back["restored"] == 2
    assert len(back["left"]) == 1
    for snapshot in place.old:
        place.shelf.files(snapshot)
    leases = bare.ok("lease", "list", place.name, "--json").json["leases"]
    assert {lease["commit"] for lease in leases} == set(place.old)
    for lease in leases:
        bare.ok("lease", "release", place.name, lease["id"])

    place.age()
    said = bare.ok("gc", place.name, *RULES, "--quarantine").out
    assert "7 objects" in said
    bare.ok("purge", place.name, "--yes")
    gone = bare.ok("purge", place.name, "--older-than", "0", "--yes").out
    assert "7 objects" in gone
    assert planned(bare, place)["dead"] == 0
    place.check()


@pytest.mark.usefixtures("plain", "registered")
def test_leases_hold_what_the_library_takes_out(bare: CommandLine, place: Place) -> None:
    held = bare.ok("lease", "hold", place.name, place.old[-1], "--for", "1h", "--json").json
    assert held["commit"] == place.old[-1]
    made = planned(bare, place)
    assert (made["dead"], made["leases"]) == (0, 1)
    bare.ok("lease", "release", place.name, held["id"])
    assert planned(bare, place)["dead"] == 2
    bare.fails("gone", 9, "lease", "hold", place.name, "0" * 20)


@pytest.mark.usefixtures("plain", "registered")
def test_a_policy_is_stored_beside_it(bare: CommandLine, place: Place) -> None:
    error = bare.fails("refused", 6, "policy", "set", place.name, "--keep-last", "3")
    assert "does not support keep_last 3" in error["message"]
    bare.ok("policy", "set", place.name, "--older-than", "10d")
    explained = bare.ok("policy", "explain", place.name, "main", "--json").json
    assert (explained["kept"], explained["expired"]) == (2, 2)
    made = planned(bare, place, "--min-age", "1h")
    assert (made["policy_source"], made["dead"]) == ("stored", 2)
    file = Path(place.location) / ".reclaim" / "policy.json"
    file.write_bytes(file.read_bytes()[:-20])
    bare.fails("corrupt", 8, "plan", place.name)
    file.write_bytes(b"\xff")
    bare.fails("corrupt", 8, "gc", place.name)
    bare.ok("policy", "unset", place.name)
    assert planned(bare, place, "--min-age", "1h")["policy_source"] == "none"
    assert not file.exists()


@pytest.mark.usefixtures("plain", "registered")
def test_what_is_refused(bare: CommandLine, place: Place, folder: Path) -> None:
    error = bare.fails("refused", 6, "plan", place.name, "--keep-last", "3")
    assert "does not support keep_last 3" in error["message"]
    assert "older_than" in error["hint"]
    bare.fails("not_found", 3, "plan", f"shelf:{folder}/none")
    (Path(place.location) / "snapshots" / place.tip).unlink()
    bare.fails("corrupt", 8, "plan", place.name)
    assert bare("doctor", place.name, "--deep", "--json").code == 8


@pytest.mark.usefixtures("plain", "registered")
def test_all_shelves_of_a_folder(bare: CommandLine, place: Place, folder: Path) -> None:
    other = Place(str(folder), "another")
    other.age()
    (folder / "no shelf").mkdir()
    done = bare.ok("gc", f"shelf:{folder}", "--all", *RULES, "--json").json["stores"]
    assert [(one["store"], one["collected"]) for one in done] == [("a shelf", 2), ("another", 2)]
    place.check()
    other.check()
    error = bare.fails("refused", 6, "gc", f"terminus:{folder}", "--all")
    assert "--all cannot find" in error["message"]
    bare.fails("invalid_input", 2, "gc", "sales", "--all")


@pytest.mark.usefixtures("plain", "registered")
@pytest.mark.parametrize("how", ["opened", "read"])
def test_a_shelf_that_cannot_be_used_stops_no_other(
    bare: CommandLine, place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    damaged = Place(str(folder), "..%2fa damaged shelf")
    opened, read = ShelfOpener.__call__, Shelf.read

    def open_store(opener: ShelfOpener, location: str) -> ShelfStore:
        if "damaged" in location:
            raise Corrupt("it is damaged")
        return opened(opener, location)

    def read_index(shelf: Shelf) -> Index:
        if "damaged" in shelf.address("index"):
            raise ValueError("it is damaged")
        return read(shelf)

    if how == "opened":
        monkeypatch.setattr(ShelfOpener, "__call__", open_store)
    else:
        monkeypatch.setattr(Shelf, "read", read_index)
    result = bare("gc", f"shelf:{folder}", "--all", *RULES, "--json")
    assert result.code == Corrupt.exit_code
    by_state = {store["state"]: store for store in result.json["stores"]}
    assert by_state["done"]["store"] == "a shelf"
    assert by_state["done"]["collected"] == 2
    assert "a damaged shelf" in by_state["failed"]["store"]
    assert "it is damaged" in str(by_state["failed"])
    monkeypatch.undo()
    damaged.check()


@pytest.mark.usefixtures("plain")
def test_without_its_entry_point_nobody_knows_it(bare: CommandLine, place: Place) -> None:
    assert bare("plan", place.name).code != 0


@pytest.mark.usefixtures("plain", "registered")
def test_in_a_bucket(bare: CommandLine, bucket: str) -> None:
    place = Place(f"{bucket}/shelves")
    made = planned(bare, place, "--older-than", "10d", "--min-age", "0s")
    assert (made["dead"], made["candidates"]) == (2, 7)
    done = bare.ok("apply", made["plan"], "--store", place.name, "--yes", "--json").json
    assert (done["objects"], done["collected"]) == (7, 2)
    back = bare.ok("undo", done["run"], "--store", place.name, "--json").json
    assert (back["objects"], back["restored"]) == (7, 2)
    for snapshot in place.old:
        place.shelf.files(snapshot)
    assert bare.ok("doctor", place.name, "--deep", "--json").json["healthy"]
    assert [run["state"] for run in bare.ok("runs", place.name, "--json").json["runs"]] == [
        "undone"
    ]
    place.check()


def test_on_spark_in_a_process_of_its_own(place: Place, spawn: Spawn) -> None:
    path = os.pathsep.join(map(str, (SOURCE, ROOT, REGISTERED)))
    command = ("gc", place.name, *RULES, "--no-quarantine", "--json")
    process = spawn(*command, env={**os.environ, "PYTHONPATH": path}, cwd="/")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, (out, err)
    [done] = json.loads(out)["stores"]
    assert (done["state"], done["objects"], done["collected"]) == ("done", 7, 2)
    assert place.shelf.read().snapshots.keys().isdisjoint(place.old)
    place.check()

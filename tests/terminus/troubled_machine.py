"""The machine of a store, and what people, power cuts and disks do to stores besides.

What is not a layer stays where it is, whatever a run does. A trouble under which nobody can tell
what is live stops every run and changes nothing, and once it is mended all is as it was. What was
promised comes back, with its own bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from reclaim.errors import LeaseLapsed, Partial, Refused
from reclaim.model import SnapshotId
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.terminus import label_files, observing
from reclaim.stores.terminus.labels import Label
from reclaim.testing.faults import FaultyStorage
from tests.terminus.test_machine import Machine
from tests.terminus.troubles import (
    ONLY_LOCKED,
    TROUBLES,
    beside,
    contents_of,
    refuses_long_leases,
    remove,
)
from tests.terminus.world import At, cut, stepped

NOTE = b"a note"
STRAYS = (".DS_Store", "note.txt", "abc/.DS_Store", "notes/layer", "abc/" + "d" * 40 + ".larch")
MISPLACED = ("{}.larch", "{}.rollup.hex", "{}.larch.tmp", "x{}.larch")


class TroubledMachine(Machine):
    """One store, one server, and everybody else."""

    def __init__(self) -> None:
        super().__init__()
        self.strays: dict[Path, bytes] = {}

    def teardown(self) -> None:
        remove(list(self.strays))
        self.strays.clear()
        super().teardown()

    @invariant()
    def strays_are_left_alone(self) -> None:
        assert {path: path.read_bytes() for path in self.strays} == self.strays

    def stray(self, name: str, data: bytes = NOTE) -> None:
        path = self.world.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        old = self.world.clock.now().timestamp() - 10 * 86_400
        os.utime(path, (old, old))
        self.strays[path] = data

    def make_plan(self) -> WrittenPlan:
        return self.world.plan(allowed_fraction=1.0)

    def dead_line(self, *, archives: bool) -> tuple[SnapshotId, ...]:
        """Three layers on one another that no label ever led to."""
        write = self.world.write
        line: list[SnapshotId] = []
        for number in range(3):
            write.archives = archives or number < 2
            line.append(write.layer(line[-1] if line else None, values=[f"dead {number}"]))
        write.archives = True
        return tuple(line)

    @rule(archives=st.booleans())
    def bury(self, archives: bool) -> None:
        self.dead_line(archives=archives)
        self.grow_old()

    def set_aside(self) -> str:
        """All that is dead goes to a quarantine."""
        plan = self.make_plan()
        self._run(lambda: self.world.apply(plan))
        self.aside.append(plan.document.run)
        return plan.document.run

    def collect_all(self) -> None:
        """All that is dead is deleted."""
        plan = self.make_plan()
        self._run(lambda: self.world.apply(plan, removal=DELETE))

    # What is not a layer.

    @precondition(lambda self: self.aside)
    @rule(name=st.sampled_from(STRAYS))
    def leave_a_note_in_quarantine(self, name: str) -> None:
        self.stray(f".reclaim/quarantine/{self.aside[-1]}/{name}")

    @rule(name=st.sampled_from(MISPLACED), whole=st.booleans())
    def misplace_a_file(self, name: str, whole: bool) -> None:
        shard = self.server.databases[0].meta[-1][:3]
        other = "f" if shard[0] == "0" else "0"
        [layer, *_] = self.dead_line(archives=True)
        data = (self.world.folder / self.world.write.path(layer)).read_bytes() if whole else NOTE
        self.stray(f"{shard}/{name.format(other * 40)}", data)

    @rule(folder=st.sampled_from(["lock", "leases", "condemned", "runs"]))
    def leave_a_note_beside(self, folder: str) -> None:
        self.stray(f".reclaim/{folder}/.DS_Store")

    @rule(lists_are_lost=st.booleans())
    def want_again(self, lists_are_lost: bool) -> None:
        """A label leads to what is in quarantine, and a purge is due."""
        world = self.world
        line = self.dead_line(archives=False)
        self.grow_old()
        run = self.set_aside()
        for name in STRAYS:
            self.stray(f".reclaim/quarantine/{run}/{name}")
        if lists_are_lost:
            folder = world.folder / ".reclaim/runs" / run
            remove([path for path in folder.iterdir() if path.name != "run.json"])
        world.write.label("again", line[-1])
        world.purge(timedelta(0))
        assert set(line) <= world.there()
        world.check()
        world.write.unlabel("again")
        self.aside.clear()

    # What stops every run.

    @rule(trouble=st.sampled_from(sorted(TROUBLES)))
    def trouble_comes_and_goes(self, trouble: str) -> None:
        world = self.world
        plan = self.make_plan()
        quarantined = any(run.undoable for run in world.store().runs())
        with TROUBLES[trouble](world, self.server) as refusal:
            before = contents_of(world.folder)
            if trouble not in ONLY_LOCKED:
                with pytest.raises(refusal):
                    self.make_plan()
            with pytest.raises(refusal):
                world.apply(plan, removal=DELETE)
            if quarantined:
                with pytest.raises(refusal):
                    world.purge(timedelta(0))
            assert contents_of(world.folder) == before
        world.check()

    @precondition(lambda self: self.aside)
    @rule()
    def lose_a_record(self) -> None:
        """The record of a run is empty after a power cut: what it has aside stays."""
        world, run = self.world, self.aside[-1]
        path = world.folder / ".reclaim/runs" / run / "run.json"
        whole = path.read_bytes()
        beside(world, f"runs/{run}/run.json", b"")
        before = contents_of(world.folder / ".reclaim/quarantine" / run)
        world.purge(timedelta(0))
        with pytest.raises(Refused, match=run):
            self.make_plan()
        assert contents_of(world.folder / ".reclaim/quarantine" / run) == before
        path.write_bytes(whole)
        self.aside = [run]

    @rule()
    def hold_for_years(self) -> None:
        refuses_long_leases(self.world, self.server.databases[0].meta[-1])

    # What comes while a run is at work.

    @rule(archives=st.booleans(), step=st.sampled_from(["", "before observe", "survey"]))
    def write_again_what_was_torn(self, archives: bool, step: str) -> None:
        """Torn and old when it was planned, and somebody restores it just now."""
        world, write = self.world, self.world.write
        write.archives = archives
        torn = write.layer(self.server.databases[0].meta[-1], values=["torn"])
        cut(world, torn)
        self.grow_old()
        plan = self.make_plan()
        path = world.folder / world.write.path(torn)
        if not step:
            os.utime(path)
        touch = At(step or "never", lambda: os.utime(path))
        store = stepped(world.store(), touch)
        self._run(lambda: world.apply(plan, removal=DELETE, step=touch, store=store))
        assert torn in world.there()
        remove([path])

    @rule(archives=st.booleans())
    def tear_after_the_plan(self, archives: bool) -> None:
        """Nobody has planned to take what it is now."""
        line = self.dead_line(archives=archives)
        self.grow_old()
        plan = self.make_plan()
        cut(self.world, line[-1])
        self._run(lambda: self.world.apply(plan, removal=DELETE))
        assert line[-1] in self.world.there()

    @rule()
    def build_on_what_is_torn(self) -> None:
        """A young layer above a torn one is in nobody's way, and both stay for the margin."""
        write = self.world.write
        torn = write.layer(values=["torn"])
        self.grow_old()
        cut(self.world, torn)
        young = self.world.write.layer(torn, values=["young"])
        plan = self.make_plan()
        self._run(lambda: self.world.apply(plan, removal=DELETE))
        assert {torn, young} <= self.world.there()
        remove([self.world.folder / self.world.write.path(layer) for layer in (young, torn)])

    @rule()
    def swap_labels(self) -> None:
        """A layer goes from one label to another while labels are read one by one."""
        world = self.world
        line = self.dead_line(archives=True)
        live = self.server.databases[0].meta[-1]
        self.grow_old()
        read_all, read = label_files.read_labels, label_files._read_locked
        swapped: set[str] = set()

        def read_anew(folder: Path) -> Sequence[Label]:
            swapped.clear()
            world.write.label("a", live)
            world.write.label("b", line[-1])
            return read_all(folder)

        def swapping(file: str) -> bytes:
            if file.endswith("/b.label") and not swapped:
                swapped.add(file)
                world.write.label("a", line[-1])
                world.write.label("b", live)
            return read(file)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(observing, "read_labels", read_anew)
            patch.setattr(label_files, "_read_locked", swapping)
            plan = self.make_plan()
        assert swapped
        listed = " ".join(world.candidates(plan))
        assert not [layer for layer in line if layer in listed]
        for name in "ab":
            world.write.unlabel(name)

    @rule(archives=st.booleans())
    def write_to_a_home(self, archives: bool) -> None:
        """An unreadable file of the same size lies where a layer came from."""
        world = self.world
        line = self.dead_line(archives=archives)
        self.grow_old()
        home = world.folder / world.write.path(line[-1])
        file = home if home.is_file() else home / "value_dictionary_blocks.tfc"
        whole = contents_of(home) if home.is_dir() else {".": home.read_bytes()}
        run = self.set_aside()
        for name, data in whole.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(len(data)) if path == file else data)
        self.undo_around(run, line[-1])
        good = world.folder / ".reclaim/quarantine" / run / home.relative_to(world.folder)
        assert good.exists()
        assert not any(file.read_bytes())
        remove([home])
        self.undo_around(run, None)
        assert {name: (home / name).read_bytes() for name in whole} == whole
        self.aside.remove(run)

    def undo_around(self, run: str, blocked: SnapshotId | None) -> None:
        """Undo a run; what is blocked is named, and it alone."""
        try:
            left = list(self.world.undo(run).left)
        except Partial as error:
            left = [*error.details["waits"], error.message]
        assert bool(blocked) == any(blocked in line for line in left if blocked)

    @rule()
    def sleep_while_renewing(self) -> None:
        """A whole run fits into the sleep: the holder must not believe that it holds anything."""
        world = self.world
        line = self.dead_line(archives=True)
        self.grow_old()
        lease = world.store().take_lease(line[-1], holder="sleeper", length=timedelta(hours=1))
        plan = self.make_plan()
        slept: list[bool] = []

        def sleep(call: str, _address: str) -> None:
            if call == "put" and not slept:
                slept.append(True)
                world.clock.advance(hours=2)
                self.server.forget_leases()
                world.apply(plan, removal=DELETE)
                world.apply(self.make_plan(), removal=DELETE)

        store = world.store(lambda storage: FaultyStorage(storage, sleep))
        try:
            store.renew_lease(lease)
        except LeaseLapsed:
            return
        assert set(line) <= world.there()

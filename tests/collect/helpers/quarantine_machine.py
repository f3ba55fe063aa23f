"""The machine of collection, with applies that set aside, undos and purges among everything else.

The dictionaries do not change by any of them: what a ref, a lease or staging reaches reads back.
Runs overlap, die, end halfway, and are undone in any order and more than once, while others write
to where something was set aside from, or switch the bucket's versioning. An undo that says it is
done has brought every commit and byte back, and says how many; one that does not names what is
missing, with a reason that is true, and can be done again. A purge frees what its runs took and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.errors import Conflict, Partial, Refused
from reclaim.run.purge.purge import Purged
from reclaim.run.sweep.removal import MARKED
from reclaim.run.undo.undo_run import Undone
from reclaim.run_record import Phase, Quarantine
from reclaim.storage import Storage
from reclaim.testing.faults import FaultyStorage, ListingStorage
from tests.collect.apply.test_machine import FATAL, Stepping, writes
from tests.collect.helpers.aside_machine import DEATHS, NOT_KEPT
from tests.collect.helpers.removals import ENABLED
from tests.collect.helpers.strangers_machine import StrangersMachine
from tests.collect.helpers.world import NAME, At, stepped, whole
from tests.support.dying import Died

POINTS = st.sampled_from(
    ["before begin", "sweep quarantine", "before taken", "before restore", "after restore"]
)
AGES = st.sampled_from([None, timedelta(0), timedelta(days=1)])


class QuarantineMachine(StrangersMachine):
    """Undos and purges of runs that have set something aside."""

    def teardown(self) -> None:
        """Once nothing is in the way, all that is promised comes back; then all is let go."""
        try:
            self.bring_all_back()
            self.world.clock.advance(hours=1)
            self.work(lambda **how: self.world.purge(timedelta(0), **how))
        except BaseException:
            self.close()
            raise
        super().teardown()

    def bring_all_back(self) -> None:
        """Undo every run that can be, the newest first, when others have cleared the way."""
        self.clear_homes()
        if self.driver.versioning:
            self.driver.switch(ENABLED)
        for run in reversed(self.aside()):
            self.undo_one(run)

    # Undo.

    def work(
        self, run: Callable[..., object], step: Stepping | None = None, *, blind: bool = False
    ) -> object:
        """Undo or purge, when the lock of one that died is over; None if it dies too."""
        world, take = self.world, step or (lambda *_: None)
        catalog = world.opened()
        storage: Storage = FaultyStorage(world.storage, writes(take)) if step else world.storage
        if blind:
            storage = ListingStorage(storage, _without_quarantine)
        try:
            with pytest.MonkeyPatch.context() as patch:
                if step:
                    self.driver.tell(patch, step)
                return run(store=stepped(world.store(catalog), take), step=take, storage=storage)
        except Died:
            return None
        except Conflict as error:
            if "is working on this repository" not in str(error):
                raise
        finally:
            catalog.close()
        world.clock.advance(minutes=12)
        return self.work(run, step, blind=blind)

    def undo_one(self, run_id: str, step: Stepping | None = None, *, blind: bool = False) -> None:
        run = self.run_of(run_id)
        assert run is not None
        if self.is_stuck(run.quarantine.removal if run.quarantine else None):
            before = self.world.there()
            with pytest.raises(Refused, match=NOT_KEPT):
                self.work(lambda **how: self.world.undo(run_id, **how))
            assert self.world.there() == before
            return
        taken = self.promises.commits_of(run_id)
        self.promises.check_kept(run_id)
        before = self.world.there()
        done: object
        try:
            done = self.work(lambda **how: self.world.undo(run_id, **how), step, blind=blind)
        except Partial as error:
            done = error
        self.check()
        for home, data in self.foreign.items():
            assert self.world.storage.get(home) == data
        if done is not None:
            self.check_undone(run_id, taken, done, before)
        # What is live again may be taken by others.
        self.promises.commits[run_id] = self.promises.commits_of(run_id)
        self.deleted = {h: data for h, data in self.deleted.items() if h not in self.world.there()}
        self.settle()

    def check_undone(self, run_id: str, taken: set[str], done: object, before: set[str]) -> None:
        """What an undo says is true."""
        run = self.run_of(run_id)
        assert run is not None
        missing = self.promises.check_back(run_id, run.phase)
        named = []
        if isinstance(done, Partial):
            named = done.details["waits"]
            assert run.quarantine
            assert named or done.details["failed"]
            assert run_id not in self.promises.taken or done.details["failed"] == len(missing)
        else:
            assert run.phase == Phase.UNDONE
            assert isinstance(done, Undone)
            files = self.promises.taken.get(run_id)
            others = (set(self.deleted) & self.world.there()) - before
            assert files is None or done.objects == len(files) + len(others)
        with self.world.opened() as catalog:
            repo = catalog.repository(NAME)
            for commit in taken:
                if any(left.startswith(f"commit {commit}:") for left in named):
                    self.promises.check_reason(commit)
                else:
                    assert whole(repo, commit) == self.model.commits[commit]

    def settle(self) -> None:
        """Runs that have ended owe nothing more; those that are undone gave back everything."""
        for run_id in list(self.promises.taken):
            run = self.run_of(run_id)
            if run is not None and run.phase == Phase.UNDONE:
                self.promises.check_back(run_id, run.phase)
            if run is None or not run.quarantine:
                self.promises.forget(run_id)

    @precondition(lambda self: self.aside())
    @rule(
        data=st.data(),
        which=st.integers(0, 5),
        how=st.sampled_from(["whole", "whole", "blind", "dies", "races"]),
        dies=DEATHS,
        point=POINTS,
        what=st.integers(0, 6),
    )
    def undo(
        self, data: st.DataObject, which: int, how: str, dies: int | str, point: str, what: int
    ) -> None:
        run = self.aside()[which % len(self.aside())]
        if how == "dies":
            self.die_in(lambda step: self.undo_one(run, step), dies)
        elif how == "races":
            self.undo_one(run, At(point, lambda: self.revive(data, what)))
        else:
            self.undo_one(run, blind=how == "blind")

    # Purge.

    @precondition(lambda self: self.aside())
    @rule(older=AGES, dies=st.none() | FATAL)
    def purge(self, older: timedelta | None, dies: int | None) -> None:
        # One that died may have the lock still.
        self.world.clock.advance(minutes=12)
        due = self.due(older)
        before = self.world.there()
        for run in due:
            for home in self.promises.taken.get(run, ()):
                self.foreign.pop(home, None)

        def work(step: Stepping | None) -> None:
            done = self.work(lambda **how: self.world.purge(older, **how), step)
            assert done is None or isinstance(done, Purged)

        if dies is not None:
            self.die_in(lambda step: self.refused(due, lambda: work(step), died=True), dies)
        else:
            self.refused(due, lambda: work(None), died=False)
        # What is in quarantine is nowhere else, so that a purge takes nothing that is in use.
        assert self.world.there() == before
        self.check_freed(due, died=dies is not None)
        self.check()

    def due(self, older: timedelta | None) -> dict[str, str]:
        """The runs whose window is over, or that began long ago, each with its way."""
        now = self.world.clock.now() if older is None else self.world.clock.now() - older
        return {
            run.id: run.quarantine.removal
            for run in self.repo.runs()
            if run.quarantine and (run.purging or _time(run.quarantine, older) <= now)
        }

    def refused(self, due: dict[str, str], work: Callable[[], None], *, died: bool) -> None:
        """A purge, which is refused where the bucket does not keep versions any more."""
        if not any(self.is_stuck(name) for name in due.values()):
            work()
        elif died:
            # Perhaps before it had asked the bucket.
            with suppress(Refused, Partial):
                work()
        else:
            with pytest.raises((Refused, Partial), match=NOT_KEPT):
                work()

    def check_freed(self, due: dict[str, str], *, died: bool) -> None:
        """What is purged takes no space; what others deleted is as they left it."""
        stuck = any(self.is_stuck(name) for name in due.values())
        for run_id, name in due.items():
            run = self.run_of(run_id)
            assert run is not None
            purged = run.phase == Phase.PURGED
            assert purged or died or stuck
            if purged:
                for home, data in self.promises.taken.get(run_id, {}).items():
                    moved = self.promises.set_aside(run_id, home)
                    covered = self.driver.covered(home) if name == MARKED else ()
                    freed = moved is None and data not in covered
                    assert freed or home in self.deleted, f"{home} was not freed"
            if purged or run.purging:
                # One that died may have begun with it, and says so before anything goes.
                self.promises.forget(run_id)
        for home, data in self.deleted.items():
            assert data in self.driver.covered(home), f"{home} was somebody's"


def _without_quarantine(listed):  # type: ignore[no-untyped-def]
    return (stored for stored in listed if "/quarantine/" not in stored.address)


def _time(quarantine: Quarantine, older: timedelta | None) -> datetime:
    """The time of a quarantine that tells whether it is due."""
    time = quarantine.until if older is None else quarantine.since
    assert time is not None
    return time

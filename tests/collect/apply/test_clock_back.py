"""A clock that jumped ahead and came back: leases that had lapsed are valid again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from reclaim.catalog.database.schema import leases
from reclaim.errors import Corrupt, TransactionFailed
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from tests.collect.helpers.changes import assert_gone
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import World, bury, whole


@pytest.mark.parametrize("aside", [False, True], ids=["collected", "set aside"])
def test_a_lease_on_what_was_collected_holds_nothing(local: World, aside: bool) -> None:
    past = bury(local)
    lease = local.other().take_lease(past.second, holder="reader", length=timedelta(days=1))
    before = local.clock.now()
    local.clock.advance(days=3)
    run = local.apply(local.plan(), removal=MoveToQuarantine() if aside else DELETE)
    local.clock.set(before + timedelta(minutes=1))

    repo = local.other()
    assert [valid for _, valid in repo.leases()] == [True]
    with pytest.raises(TransactionFailed):
        repo.renew_lease(lease.id)
    assert local.apply(local.plan()).summary()["objects"] == 0
    assert whole(local.other(), past.keep) == past.files[past.keep]
    if aside:
        local.undo(run.run)
        assert whole(local.other(), past.second) == past.files[past.second]
        assert local.candidates(local.plan()) == {}
    else:
        assert_gone(local, past.second)


def test_a_lease_on_a_commit_that_never_was_stops_a_run(local: World) -> None:
    past = bury(local)
    repo = local.other()
    repo.take_lease(past.second, holder="reader", length=timedelta(days=1))
    with repo._workspace.database.write() as connection:
        connection.execute(update(leases).values(commit_id="0" * 32))
    with refused(local, Corrupt, 8):
        local.plan()

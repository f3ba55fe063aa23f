"""Promised commits that lost an object, and promised containers that cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reclaim.catalog.content import ranges as containers
from reclaim.catalog.database.schema import CommitState, commits, run_edits
from reclaim.errors import Conflict, IncompleteRead, Partial, UnknownVersion
from reclaim.policy import from_options
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from tests.catalog import raw
from tests.collect.helpers.promised_history import (
    DAY,
    MOVE,
    ONE,
    apply_all,
    history,
    leased_history,
    shared_data,
)
from tests.collect.helpers.world import (
    NAME,
    World,
    bury,
    commit_states,
    whole,
)
from tests.collect.quarantine.test_promises import aside_of


def line(world: World) -> tuple[list[str], str]:
    """Three dead commits, the oldest first, and the address of what only the oldest has."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        repo.branch("main").put("a", b"a")
        repo.branch("main").commit("keep")
        side = repo.create_branch("side", "main")
        side.put("only", b"only in the oldest")
        commits = [side.commit("0").id]
        [only] = [one.address for one in repo.at(commits[0]).entries() if one.path == "only"]
        side.delete("only")
        for number in (1, 2):
            world.clock.advance(hours=1)
            side.put("f", str(number).encode())
            commits.append(side.commit(str(number)).id)
        repo.delete_branch("side")
    world.age()
    return commits, only


def test_commits_come_back_although_the_oldest_lost_an_object(local: World) -> None:
    commits, only = line(local)
    below = history(local, "main")
    run = apply_all(local, removal=MOVE)
    local.storage.delete(aside_of(local, run, only))
    for _ in range(2):
        with pytest.raises(Partial, match=f"commit {commits[0]}: some of its objects"):
            local.undo(run)
        states = commit_states(local.repo)
        assert [states[one] for one in commits] == ["quarantined", "live", "live"]
        assert history(local, commits[2]) == [commits[2], commits[1], *below]
    local.check()
    local.repo.create_tag("kept", commits[2])
    local.clock.advance(days=8)
    assert local.purge() is not None
    local.quiet()
    assert whole(local.other(), "kept") == {"a": b"a", "f": b"2"}


def test_who_came_back_without_a_parent_gets_it_when_it_is_back(local: World) -> None:
    commits, only = line(local)
    before = history(local, commits[2])
    run = apply_all(local, removal=MOVE)
    file = Path(local.backend.location) / "objects" / aside_of(local, run, only)
    elsewhere = file.rename(Path(local.backend.location) / "elsewhere")
    with pytest.raises(Partial):
        local.undo(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.rename(file)
    assert local.undo(run).snapshots == 1
    assert commit_states(local.repo)[commits[0]] == CommitState.LIVE
    assert history(local, commits[2]) == before


def test_what_only_the_promise_held_is_leased(local: World) -> None:
    """An undo that cannot hang it up again leaves time to name it."""
    files = leased_history(local, 1)
    commit = list(files)[1]
    local.repo.create_tag("old", commit)
    plan = local.plan(from_options(older_than="3d"), allowed_fraction=1.0, delete_expired_tags=True)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    local.clock.advance(hours=3)
    with local.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("zz", b"1")
        main.commit("x")
        catalog.repository(NAME).create_tag("old", "main")
    apply_all(local, ONE)
    assert commit_states(local.repo)[commit] == CommitState.LIVE
    assert "the tag old" in local.undo(run).left
    local.clock.advance(minutes=5)
    apply_all(local)
    assert whole(local.other(), commit) == files[commit]


def test_a_promised_container_of_a_newer_version_stops_the_run(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what it lists, and so what the undo of its run needs."""
    past = bury(local)
    metarange = local.repo.commit(past.first).metarange
    apply_all(local, removal=MoveToQuarantine(30 * DAY))
    real = containers.decode_metarange_table

    def newer(data: bytes, address: str) -> Any:
        if address == metarange:
            raise UnknownVersion("a container of format 9")
        return real(data, address)

    monkeypatch.setattr(containers, "decode_metarange_table", newer)
    with pytest.raises(UnknownVersion, match="format 9"):
        local.plan()


def test_a_history_cut_twice_stays_marked(local: World) -> None:
    """One parent is gone for good and one for now: when that is back, the first still misses."""
    repo = local.repo
    local.repo.branch("main").put("a", b"a")
    base = repo.branch("main").commit("base").id
    ids = {}
    for name in ("gone", "broken"):
        repo.create_branch(name, "main").put(name, name.encode())
        ids[name] = repo.branch(name).commit(name).id
    merged = repo.branch("gone").merge("broken").id
    metarange = repo.commit(ids["broken"]).metarange
    for name in ids:
        repo.delete_branch(name)
    local.age()
    run = local.apply(local.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    with repo._workspace.database.write() as connection:
        reduced = {"state": CommitState.COLLECTED, "run_id": "0" * 32}
        connection.execute(update(commits).where(commits.c.id == ids["gone"]).values(**reduced))
    [lost] = [one for one in raw.objects(repo) if one.endswith(metarange.rpartition("/")[2])]
    local.storage.delete(lost)
    with pytest.raises(Partial):
        local.undo(run)
    assert repo.commit(merged).parents == (base,)
    assert repo.commit(merged).marked
    [edit] = [row for row in raw.rows(repo, run_edits) if row.commit_id == merged]
    # A merge takes these for the parents that it was written with.
    assert json.loads(edit.old_parents) == [ids["gone"], ids["broken"]]
    assert not edit.was_marked


@pytest.mark.parametrize("kind", ["metarange", "range"])
@pytest.mark.parametrize("damaged", [False, True], ids=["away", "damaged"])
def test_a_promised_container_that_cannot_be_read_stops_others(
    local: World, kind: str, damaged: bool
) -> None:
    """For a night. What only it holds is at home, and nothing else tells that it is needed."""
    shared = shared_data(local)
    before = local.plan(ONE, allowed_fraction=1.0)
    kept = local.storage.get(shared.containers[kind])
    file = Path(local.backend.location) / "objects" / shared.containers[kind]
    times = file.stat()
    if damaged:
        file.write_bytes(kept[::-1])
    else:
        file.unlink()
    for attempt in (
        lambda: local.plan(ONE, allowed_fraction=1.0),
        lambda: local.apply(before, removal=DELETE),
    ):
        with pytest.raises(IncompleteRead, match=shared.run) as refused:
            attempt()
        assert f"--run {shared.run}" in (refused.value.hint or "")
        assert refused.value.details["unreadable"] == 1
    file.write_bytes(kept)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    apply_all(local, ONE)
    local.undo(shared.run)
    assert whole(local.other(), shared.commit)["d"] == b"shared"


def test_a_promised_container_that_is_lost_and_the_way_out(local: World) -> None:
    """What is whole comes back; then the run is purged, and no other with it."""
    shared = shared_data(local)
    bury(local)
    other = apply_all(local, removal=MoveToQuarantine(30 * DAY))
    local.storage.delete(shared.containers["metarange"])
    with pytest.raises(IncompleteRead):
        local.plan(allowed_fraction=1.0)
    with pytest.raises(Partial, match=f"commit {shared.commit}: some of its objects"):
        local.undo(shared.run)
    purged = local.purge(run_id=shared.run)
    assert purged is not None
    assert purged.runs == [shared.run]
    local.plan(allowed_fraction=1.0)
    assert local.undo(other).snapshots == 2


def test_a_container_that_is_away_while_another_run_works(local: World) -> None:
    """It may be a purge that has deleted it just now: that is no damage."""
    shared = shared_data(local)
    local.storage.delete(shared.containers["metarange"])
    with local.store().lock("f" * 32), pytest.raises(Conflict, match="undone or purged"):
        local.plan(ONE, allowed_fraction=1.0)

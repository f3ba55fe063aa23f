"""Merges after an expiration, compared with the same merges in a history that was left alone.

A merge may be more careful than it would have been, and report paths as conflicts that are none.
It must never take another side than it would have taken. Where the commit at which the two lines
met is still there, it does what it would have done.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from sqlalchemy import delete, update

from reclaim.catalog import Repository, Side
from reclaim.catalog.database.schema import CommitState, commits, run_edits
from reclaim.errors import MergeConflict, NothingToCommit
from reclaim.policy import Policy, from_options, parse_policy
from tests.collect.helpers.world import World, whole
from tests.support import expiring
from tests.support.expiring import take_back

PATHS = ("a", "b", "c")
BRANCHES = ("main", "left", "right")
Outcome = tuple[str, dict[str, bytes] | list[str]]


@dataclass
class Twins:
    """Two repositories that are written to in the same way, of which one is expired."""

    world: World
    plain: Repository
    numbers: int = 0
    names: list[str] = field(default_factory=list)

    @property
    def both(self) -> tuple[Repository, Repository]:
        return self.world.repo, self.plain

    def save(self, branch: str, **files: str) -> None:
        self.numbers += 1
        for repo in self.both:
            for path, content in files.items():
                repo.branch(branch).put(path, content.encode())
            repo.branch(branch).commit(f"{self.numbers}")
        self.world.clock.advance(hours=1)

    def fork(self, name: str, source: str) -> None:
        for repo in self.both:
            repo.create_branch(name, source)

    def join(self, branch: str, source: str) -> None:
        for repo in self.both:
            repo.branch(branch).merge(source, prefer=Side.SOURCE)
        self.world.clock.advance(hours=1)

    def expire(self, policy: Policy, *, collect: bool) -> None:
        self.world.age()
        if collect:
            self.world.apply(self.world.plan(policy, allowed_fraction=1.0))
        else:
            expiring.expire(self.world.repo, policy)

    def outcomes(self, target: str, source: str) -> tuple[Outcome, Outcome]:
        """What a merge comes to after the expiration, and what it would have come to."""
        self.numbers += 1
        name = f"try-{self.numbers}"
        self.fork(name, target)
        after, alone = (_outcome(repo, name, source) for repo in self.both)
        return after, alone

    def check(self, *, is_there: bool) -> None:
        """Compare all merges; where all bases are there, they must come to the same."""
        for target in BRANCHES:
            for source in BRANCHES:
                after, alone = self.outcomes(target, source)
                if after[0] == "merged" or is_there:
                    assert after == alone, (target, source)


def _outcome(repo: Repository, branch: str, source: str) -> Outcome:
    try:
        repo.branch(branch).merge(source)
    except NothingToCommit:
        pass
    except MergeConflict as conflict:
        return "conflict", conflict.details["paths"]
    return "merged", whole(repo, branch)


@pytest.fixture
def twins(local: World) -> Twins:
    return Twins(local, local.opened().create_repository("left-alone"))


@pytest.fixture
def forked(twins: Twins) -> Twins:
    """Two branches that met three commits ago, and a history before that."""
    for number in range(2):
        twins.save("main", a=f"old {number}", b="0", c="0")
    for name in BRANCHES[1:]:
        twins.fork(name, "main")
    for number in range(3):
        twins.save("main", a=f"main {number}")
        twins.save("left", b=f"left {number}")
    twins.save("right", c="right")
    return twins


LAST: Policy = from_options(keep_last=1)
BASES: Policy = from_options(keep_last=1, keep_merge_bases=True)


@pytest.mark.parametrize("collect", [False, True], ids=["expired", "collected"])
def test_a_base_that_is_kept_gives_the_merge_back(forked: Twins, collect: bool) -> None:
    forked.expire(BASES, collect=collect)
    # It is the direct parent on both sides, and both got it in the place of others.
    repo = forked.world.repo
    assert repo.commit("main").marked
    assert repo.commit("left").marked
    base = repo.merge_base("main", "left")
    assert base is not None
    assert repo.commit("main").parents == repo.commit("left").parents == (base.id,)
    forked.check(is_there=True)


@pytest.mark.parametrize("collect", [False, True], ids=["expired", "collected"])
def test_a_base_that_went_is_not_replaced_by_an_older_one(forked: Twins, collect: bool) -> None:
    """The left side goes back to what the older base has: that is a change of its own."""
    forked.save("left", a="old 0")
    for repo in forked.both:
        oldest = list(repo.log("main"))[-2]
        assert whole(repo, oldest.id)["a"] == b"old 0"
        repo.create_tag("older-base", oldest.id)
    forked.expire(LAST, collect=collect)
    older = forked.world.repo.merge_base("main", "left")
    assert older == forked.world.repo.commit("older-base")
    for repo in forked.both:
        repo.branch("main").put("a", b"old 1")
        repo.branch("main").commit("as it was where they met")
    after, alone = forked.outcomes("main", "left")
    assert alone == ("merged", {"a": b"old 0", "b": b"left 2", "c": b"0"})
    assert after == ("conflict", ["a", "b"])
    forked.check(is_there=False)


def test_a_source_that_was_merged_before_is_not_merged_again(forked: Twins) -> None:
    """Its tip is expired, and so not a parent of anything any more."""
    forked.join("main", "left")
    forked.world.age()
    forked.save("main", b="undone since")
    forked.expire(from_options(older_than="1d"), collect=True)
    after, alone = forked.outcomes("main", "left")
    assert after == alone
    assert after[1]["b"] == b"undone since"  # type: ignore[call-overload]
    forked.check(is_there=False)


def test_a_second_expiration_is_seen_through_as_well(forked: Twins) -> None:
    forked.expire(from_options(keep_last=2, keep_merge_bases=True), collect=True)
    for name in ("main", "left"):
        forked.save(name, **{name[0]: "later"})
    forked.expire(BASES, collect=True)
    forked.check(is_there=True)


def test_an_undone_expiration_leaves_no_trace(forked: Twins) -> None:
    repo = forked.world.repo
    run = expiring.expire(repo, LAST)
    assert run is not None
    take_back(repo, run.id)
    forked.check(is_there=True)
    forked.expire(BASES, collect=True)
    forked.check(is_there=True)


def test_without_a_note_of_the_edit_nothing_is_trusted(forked: Twins) -> None:
    forked.expire(BASES, collect=False)
    repo = forked.world.repo
    with repo._workspace.database.write() as connection:
        connection.execute(delete(run_edits))
    after, _ = forked.outcomes("main", "left")
    assert after == ("conflict", ["a", "b"])


@pytest.mark.parametrize("emptied", [False, True], ids=["as it is", "emptied"])
def test_what_earlier_versions_emptied_is_not_known(twins: Twins, emptied: bool) -> None:
    """A merge into main leads around the commits between which the base was."""
    twins.save("main", a="older base", b="0", c="0")
    twins.fork("right", "main")
    twins.save("main", a="base")
    twins.fork("left", "main")
    twins.save("main", b="main")
    twins.save("left", a="older base")
    twins.save("right", c="right")
    passed = twins.world.repo.commit("main").id
    twins.join("main", "right")
    rules = {"rules": [{"match": "right", "keep_last": 2}], "default": {"keep_last": 1}}
    twins.expire(parse_policy(rules, source="test"), collect=True)
    repo = twins.world.repo
    if emptied:
        with repo._workspace.database.write() as connection:
            gone = (commits.c.state == CommitState.COLLECTED) & (commits.c.id == passed)
            assert connection.execute(update(commits).where(gone).values(parents="[]")).rowcount
    after, alone = twins.outcomes("main", "left")
    assert alone == ("merged", {"a": b"older base", "b": b"main", "c": b"right"})
    assert after[0] == "conflict"


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(twins: Twins, seed: int) -> None:
    chance = random.Random(seed)
    twins.save("main", a="0", b="0", c="0")
    for name in BRANCHES[1:]:
        twins.fork(name, "main")
    for _ in range(10):
        branch = chance.choice(BRANCHES)
        if chance.random() < 0.25:
            twins.join(branch, chance.choice([one for one in BRANCHES if one != branch]))
        else:
            twins.save(branch, **{chance.choice(PATHS): str(chance.randrange(3))})
    policies = [LAST, BASES, from_options(keep_last=2), from_options(older_than="2d4h")]
    for policy in chance.sample(policies, 2):
        twins.expire(policy, collect=chance.random() < 0.5)
        twins.check(is_there=False)
        twins.save(chance.choice(BRANCHES), a=str(chance.randrange(3)))

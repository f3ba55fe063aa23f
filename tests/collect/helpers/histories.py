"""Random small histories, and all that can be read of one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from reclaim.catalog import Repository
from reclaim.catalog.database.schema import commits
from reclaim.errors import Conflict, Gone, InvalidInput, NotFound
from reclaim.policy import from_options
from reclaim.run.plan.planning import WrittenPlan
from tests.catalog import raw
from tests.collect.helpers.world import NAME, Files, World, whole

Deed = tuple[str, int, int]
"""What is done, and two numbers to choose with."""
PATHS = ("a", "a/b", "b/x", "c", "d")
KINDS = (
    *("put", "put", "put", "commit", "commit", "remove", "copy", "link"),
    *("branch", "branch", "tag", "merge", "reset", "back", "delete", "untag", "wait"),
)
MORE_KINDS = (*KINDS, "empty", "revert", "lease", "same")
"""With commits that change nothing, or what another one did, and leases."""
NOT_NOW = (Conflict, Gone, InvalidInput, NotFound)
"""What a random deed may come upon: nothing to commit, a name that is taken, a commit gone."""

DEEDS: st.SearchStrategy[Deed] = st.tuples(
    st.sampled_from(KINDS), st.integers(0, 99), st.integers(0, 99)
)
HISTORIES = st.lists(DEEDS, min_size=5, max_size=18)
LATER = st.lists(DEEDS, max_size=5)
POLICIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "rules": st.sampled_from(
            [{}, {"older_than": "3d"}, {"keep_last": 1}, {"keep_last": 2}, {"keep_daily": 1}]
        ),
        "delete_expired_tags": st.booleans(),
        "delete_expired_branches": st.booleans(),
    }
)


def live(world: World, deeds: Iterable[Deed]) -> None:
    """Do what there is to do, through an instance that is closed at the end."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        for number, deed in enumerate(deeds):
            with suppress(*NOT_NOW):
                do(world, repo, deed, f"{world.clock.now():%d%H%M}-{number}")


def do(world: World, repo: Repository, deed: Deed, name: str) -> None:
    kind, one, two = deed
    names = sorted(ref.name for ref in repo.branches())
    chosen = names[one % len(names)]
    branch = repo.branch(chosen)
    path = PATHS[two % len(PATHS)]
    known = sorted(row.id for row in raw.rows(repo, commits) if row.state == "live")
    match kind:
        case "put":
            branch.put(path, f"{name} {two}".encode())
        case "commit":
            branch.commit(name)
            world.clock.advance(hours=one % 30)
        case "empty":
            branch.commit(name, allow_empty=True)
        case "revert":
            branch.revert(known[two % len(known)])
        case "lease":
            repo.take_lease(known[two % len(known)], holder=name, length=timedelta(days=1 + one))
        case "same":
            for twin in {chosen, names[two % len(names)]}:
                repo.branch(twin).put(path, b"the same on two branches")
                repo.branch(twin).commit(name)
        case "remove":
            branch.delete(path)
        case "copy":
            branch.copy(path, "e")
        case "link":
            address = branch.get_physical_address(path)
            world.storage.put(address.address, name.encode())
            if two % 2:
                branch.link_physical_address(path, address)
        case "branch":
            repo.create_branch(f"branch-{name}", known[two % len(known)])
        case "tag":
            repo.create_tag(f"tag-{name}", known[two % len(known)])
        case "merge":
            branch.merge(names[two % len(names)], prefer="source")
        case "reset":
            branch.reset()
        case "back":
            branch.reset_to(known[two % len(known)])
        case "delete" if chosen != "main":
            repo.delete_branch(chosen)
        case "untag" if tags := repo.tags():
            repo.delete_tag(tags[two % len(tags)].name)
        case "wait":
            world.clock.advance(days=one % 4)


def start(world: World, deeds: Iterable[Deed]) -> None:
    """A history that begins with something to lose, and has grown old."""
    begun: list[Deed] = [("put", 0, 0), ("put", 0, 3), ("commit", 25, 0)]
    live(world, [*begun, *begun, *deeds])
    world.age()


def plan(world: World, policy: dict[str, Any]) -> WrittenPlan:
    return world.plan(
        from_options(**policy["rules"]),
        allowed_fraction=1.0,
        delete_expired_tags=policy["delete_expired_tags"],
        delete_expired_branches=policy["delete_expired_branches"],
    )


@dataclass(frozen=True)
class Readable:
    """All that can be read of a repository, also of commits that nothing reaches."""

    refs: dict[str, str]
    logs: dict[str, list[str]]
    staged: dict[str, Files]
    """What branches show, staged changes included."""
    commits: dict[str, tuple[Any, ...]]
    """The rows of commits, with their parents."""
    files: dict[str, Files]

    @classmethod
    def of(cls, world: World) -> Readable:
        # Reading takes leases, which are given back when the instance is closed.
        with world.opened() as catalog:
            repo = catalog.repository(NAME)
            refs = {ref.name: ref.commit for ref in (*repo.branches(), *repo.tags())}
            rows = {row.id: tuple(row) for row in raw.rows(repo, commits) if row.state == "live"}
            return cls(
                refs,
                {name: [commit.id for commit in repo.log(name)] for name in refs},
                {ref.name: whole(repo, ref.name) for ref in repo.branches()},
                rows,
                {commit: whole(repo, commit) for commit in rows},
            )

"""What becomes of each address, decided by reading every commit; nothing shared with a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date

from reclaim.catalog import Repository
from reclaim.policy.lifecycle import AddressVerdict, DatedRule, Occurrence, judge
from tests.collect.helpers.world import World


def verdicts(world: World, rules: list[DatedRule]) -> Mapping[str, AddressVerdict]:
    """The verdict on every address that some live commit has."""
    repo = world.other()
    branches = {ref.name: _reached(repo, ref.name) for ref in repo.branches()}
    holders = {f"the tag {ref.name}": _reached(repo, ref.name) for ref in repo.tags()}
    holders |= {
        f"the lease {lease.id}": _reached(repo, str(lease.snapshot))
        for lease, valid in repo.leases()
        if valid
    }
    found: dict[str, list[Occurrence]] = {}
    for commit in set().union(*branches.values(), *holders.values()):
        reached_by = frozenset(name for name, some in branches.items() if commit in some)
        held_by = tuple(name for name, some in holders.items() if commit in some)
        for path, address, created in _entries(repo, commit):
            one = Occurrence(path, created, reached_by, held_by)
            found.setdefault(address, []).append(one)
    return {address: judge(rules, some) for address, some in found.items()}


def _reached(repo: Repository, ref: str) -> set[str]:
    return {commit.id for commit in repo.log(ref)}


def _entries(repo: Repository, commit: str) -> list[tuple[str, str, date]]:
    metarange = repo.commit(commit).metarange
    if not metarange:
        return []
    tree = repo._workspace.containers.tree(metarange)
    return [
        (entry.path, entry.address, entry.created_at.astimezone(UTC).date())
        for entry in tree.entries()
        if entry.owned
    ]

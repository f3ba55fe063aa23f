"""Reach of commits: bitmaps of branch classes, and names for messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.lifecycle import COMMITS, METARANGES, NOBODY, ReachNames
from reclaim.errors import IncompleteRead
from reclaim.history.classes import first_reaching, reach_bits
from reclaim.model import RefKind, SnapshotId
from reclaim.policy.lifecycle.classes import HOLDER, OTHERS, BranchClasses
from reclaim.run.plan.decide import Decided
from reclaim.stores.observation import Observation

PROMISED = "a run that can be undone"


@dataclass(frozen=True, slots=True)
class Reach:
    """Bitmap of each reachable commit, with its first holder and branch."""

    bits: Mapping[SnapshotId, int]
    holders: Mapping[SnapshotId, int]
    branches: Mapping[SnapshotId, int]
    names: ReachNames

    def commits(self) -> pa.Table:
        """Rows as ``COMMITS``."""
        ids = sorted(self.bits)
        return pa.table([ids, [self.bits[snapshot] for snapshot in ids]], schema=COMMITS)


def find_reach(seen: Observation, decided: Decided, classes: BranchClasses) -> Reach:
    """Compute the reach of each commit from observed refs, leases and promises.

    The history must be unedited: no policy may have changed it.
    """
    history = decided.history
    tips: list[tuple[int, int]] = []
    held: list[tuple[int, int]] = []
    unnamed: list[tuple[int, int]] = []
    holders: list[str] = []
    branches: list[str] = []

    def hold(tip: int, name: str) -> None:
        tips.append((tip, HOLDER))
        held.append((tip, len(holders)))
        holders.append(name)

    for ref, tip in zip(history.refs, history.tips, strict=True):
        if ref.kind is not RefKind.BRANCH:
            hold(tip, f"the {ref.kind} {ref.name}")
            continue
        bit = classes.bit(ref.name)
        tips.append((tip, bit))
        if bit == OTHERS:
            unnamed.append((tip, len(branches)))
            branches.append(ref.name)
    for lease in seen.leases:
        hold(history.numbers[lease.snapshot], f"the lease {lease.id} of {lease.holder}")
    for snapshot in sorted(seen.promised | seen.too_young):
        hold(history.numbers[snapshot], PROMISED)
    ids = [snapshot.id for snapshot in history.snapshots]
    reached = {
        snapshot: bits
        for snapshot, bits in zip(ids, reach_bits(history.parents, tips), strict=True)
        if bits
    }
    if reached.keys() != decided.live:
        raise IncompleteRead(
            f"{len(decided.live)} commits are live, but {len(reached)} are reachable from a "
            "branch, a tag or a lease",
            hint="nothing was planned; please report this, with the log of the run",
        )
    return Reach(
        reached,
        _known(ids, first_reaching(history.parents, held)),
        _known(ids, first_reaching(history.parents, unnamed)),
        ReachNames(holders, branches),
    )


def _known(ids: list[SnapshotId], numbers: list[int | None]) -> dict[SnapshotId, int]:
    return {
        snapshot: number
        for snapshot, number in zip(ids, numbers, strict=True)
        if number is not None
    }


def find_metaranges(
    seen: Observation, reach: Reach, bits: Mapping[SnapshotId, int] | None = None
) -> pa.Table:
    """Metaranges of commits without duplicates, with the union of their reach.

    With ``bits``, only commits in ``bits`` count.
    """
    by_address: dict[str, tuple[int, int, int]] = {}
    counted = reach.bits if bits is None else bits
    for addresses in seen.containers.values():
        for snapshot, of_snapshot in counted.items():
            address = addresses.get(snapshot)
            if address is None or not of_snapshot:
                continue
            bits_before, holder, branch = by_address.get(address, (0, NOBODY, NOBODY))
            by_address[address] = (
                bits_before | of_snapshot,
                min(holder, reach.holders.get(snapshot, NOBODY)),
                min(branch, reach.branches.get(snapshot, NOBODY)),
            )
    rows = [(address, *values) for address, values in sorted(by_address.items())]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(METARANGES)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, METARANGES, strict=True)]
    return pa.table(arrays, schema=METARANGES)

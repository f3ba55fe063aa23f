"""The scope of a run: folders to list and containers to read, from a checkpoint and the current
state. Pure.

The safety argument, for an address in a *final* partition of the checkpoint (closed for writers):

- if no live container listed it then, the checkpoint carries it, and only containers that
  became live since can list it now. All of their entries are read: those this run reads into
  the index, and those runs of another kind have added since;
- if a live container listed it then, it can be garbage only if a container with it died;
  other live containers with it are looked up in the index.

All other partitions are listed again, and their part of the index is read. A container in the index
that was dead at the last run of this kind and is live again is read again.

"New" and "died" are differences of sets of ids, never comparisons of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

MANY_BRANCHES = 64
"""Maximum number of parent folders for listing each partition separately."""


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """Snapshots created or deleted since a checkpoint, by id."""

    new: frozenset[str]
    """Live now but not then."""
    died: frozenset[str]
    """Live then but not now."""
    lost: frozenset[str]
    """Died snapshots taken by another run, whose entries can no longer be read."""


def find_changes(
    before: AbstractSet[str], *, live: AbstractSet[str], existing: AbstractSet[str]
) -> SnapshotChanges:
    """Compare the live snapshots of an earlier run with the current ones.

    ``there`` has every snapshot with possible containers, including dead snapshots.
    """
    died = before - live
    return SnapshotChanges(frozenset(live - before), frozenset(died), frozenset(died - existing))


def find_listed(folders: Iterable[tuple[str, str]], final: AbstractSet[str]) -> list[str]:
    """Select the folders to list, from folders with their partitions.

    Folders without a partition ("") and with an unknown partition are always listed.
    """
    return [folder for folder, partition in folders if partition not in final]


Range = tuple[str, str, str]
"""A folder, with the keys after which and up to which it is listed; "" for no boundary."""


def find_ranges(folders: Sequence[tuple[str, str]], final: AbstractSet[str]) -> list[Range]:
    """Key ranges of the folders to list, without any other folder.

    With few branches, each folder is a range. With many, adjacent folders of a branch form a range,
    because a partition has few objects of each branch.
    """
    whole = [(folder.rstrip("/"), partition) for folder, partition in folders]
    inside: dict[str, list[tuple[str, str]]] = {}
    for folder, partition in whole:
        inside.setdefault(folder.rpartition("/")[0], []).append((folder, partition))
    if len(inside) <= MANY_BRANCHES:
        return [(folder, "", "") for folder in find_listed(whole, final)]
    ranges: list[Range] = []
    for parent, below in inside.items():
        if any(not partition for _, partition in below):
            # Folders without a partition, or with odd names, have no known order.
            ranges += [(folder, "", "") for folder in find_listed(below, final)]
        else:
            ranges += _merged(parent, sorted(below), final)
    return ranges


def _merged(
    parent: str, below: Sequence[tuple[str, str]], final: AbstractSet[str]
) -> Iterator[Range]:
    """Ranges of a folder: from behind an unlisted folder to the end of the last listed folder."""
    after, last = "", ""
    for folder, partition in below:
        # Keys of a folder sort before its name followed by a letter or digit.
        if partition not in final:
            last = f"{folder}0"
            continue
        if last:
            yield parent, after, last
        after, last = f"{folder}0", ""
    if last:
        yield parent, after, ""


def find_looked_up(listed: Iterable[str], dead: Iterable[str]) -> frozenset[str]:
    """Partitions to read from the index: listed partitions, and partitions with entries of dead
    containers, which a live container may have under another path."""
    return frozenset((*listed, *dead)) - {""}

"""The scope of a run: what it has to list and read, from a checkpoint and the state of now. Pure.

The argument, for an address in a partition that the checkpoint calls *final* (nobody can write
there any more):

- if nothing live listed it then, the checkpoint carries it, and only containers that became live
  since can list it now. All of their entries are read: what this run reads into the index, and
  what runs of another kind have read into it since;
- if something live listed it then, it can be garbage only if a container died that listed it;
  whether another live one lists it too is looked up in the index.

All other partitions are listed again, and what the index knows of them is read. A container that
the index has, and that was dead at the last run of this kind and is live again, is read once more.
"New" and "died" are differences of sets of ids, never comparisons of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

MANY_BRANCHES = 64
"""Most folders of which the partitions in them are listed one by one."""


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """Snapshots that came or went since a checkpoint, by id."""

    new: frozenset[str]
    """Live now and not then."""
    died: frozenset[str]
    """Live then and not now."""
    lost: frozenset[str]
    """Those of them that another run has taken: what they listed cannot be read any more."""


def find_changes(
    then: AbstractSet[str], *, live: AbstractSet[str], there: AbstractSet[str]
) -> SnapshotChanges:
    """Compare the live snapshots of an earlier run with those of now.

    ``there`` has every snapshot of which containers may be left, dead ones included.
    """
    died = then - live
    return SnapshotChanges(frozenset(live - then), frozenset(died), frozenset(died - there))


def find_listed(folders: Iterable[tuple[str, str]], final: AbstractSet[str]) -> list[str]:
    """The folders that are listed, of folders with the partitions that they are of.

    One that is of no partition ("") is always listed, and so is one that nobody knows.
    """
    return [folder for folder, partition in folders if partition not in final]


Range = tuple[str, str, str]
"""A folder, and the keys after which and until which it is listed; "" for no boundary."""


def find_ranges(folders: Sequence[tuple[str, str]], final: AbstractSet[str]) -> list[Range]:
    """The key ranges that hold the folders which are listed, and nothing of those which are not.

    Of few branches each folder is a range. Of many, the folders of a branch that lie beside each
    other are one: a partition has objects of all of them, and few of each.
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
            # Of no partition, or odd: their order is not known.
            ranges += [(folder, "", "") for folder in find_listed(below, final)]
        else:
            ranges += _merged(parent, sorted(below), final)
    return ranges


def _merged(
    parent: str, below: Sequence[tuple[str, str]], final: AbstractSet[str]
) -> Iterator[Range]:
    """Ranges of one folder: from behind a folder that is not listed to the end of the last."""
    after, last = "", ""
    for folder, partition in below:
        # Keys of a folder come before its name with any letter or digit behind it.
        if partition not in final:
            last = f"{folder}0"
            continue
        if last:
            yield parent, after, last
        after, last = f"{folder}0", ""
    if last:
        yield parent, after, ""


def find_looked_up(listed: Iterable[str], dead: Iterable[str]) -> frozenset[str]:
    """The partitions of which the index is read: where something is listed, and where entries of
    dead containers lie, which a container that lives on may have under another path."""
    return frozenset((*listed, *dead)) - {""}

"""The scope of a run: what it has to list and read, from a checkpoint and the state of now. Pure.

The argument, for an address in a partition that the checkpoint calls *final* (nobody can write
there any more):

- if nothing live listed it then, the checkpoint carries it, and only containers that became live
  since can list it now;
- if something live listed it then, it can be garbage only if a container died that listed it;
  whether another live one lists it too is looked up in the index.

All other partitions are listed again, and what the index knows of them is read. "New" and "died"
are differences of sets of ids, never comparisons of times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

FORMAT = 1
"""The version of checkpoints and of the index."""
MOST_GENERATIONS = 100
"""So many optimized runs after a clean one, the index is made anew: it only ever grows."""


MANY_BRANCHES = 64
"""Most folders of which the partitions in them are listed one by one."""


class Mode(StrEnum):
    """How much a run looks at; ``auto`` leaves it to the checkpoint."""

    CLEAN = "clean"
    OPTIMIZED = "optimized"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Known:
    """The part of a checkpoint that tells whether it can be used, and what is to be listed."""

    run: str
    format: int
    store: str
    """The storage and the uid of the store that it is of."""
    barriers: frozenset[str]
    """Events after which no checkpoint of before counts: undos, adopted partitions."""
    generation: int
    """How many optimized runs came since a clean one."""
    final: frozenset[str]
    live: frozenset[str]
    """The snapshots that were live."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which run it is, and why."""

    mode: Mode
    why: str


def choose(asked: Mode, known: Known | str, *, store: str, barriers: AbstractSet[str]) -> Choice:
    """The run to make. ``known`` is a checkpoint, or why there is none that can be used."""
    if asked == Mode.CLEAN:
        return Choice(Mode.CLEAN, "it was asked for")
    if isinstance(known, str):
        return Choice(Mode.CLEAN, known)
    if known.format != FORMAT:
        return Choice(
            Mode.CLEAN,
            f"the checkpoint of run {known.run} has format {known.format}, and this Reclaim uses "
            f"format {FORMAT}",
        )
    if known.store != store:
        return Choice(Mode.CLEAN, f"the checkpoint of run {known.run} is of another storage")
    if barriers - known.barriers:
        event = min(barriers - known.barriers).partition(" ")[0]
        sentences = {
            "undo": "a run was undone since, or its undo is not finished",
            "adoption": "partitions were adopted since",
        }
        since = sentences.get(event, "the store was changed by hand since")
        return Choice(Mode.CLEAN, f"the checkpoint of run {known.run} does not count: {since}")
    if known.generation >= MOST_GENERATIONS:
        return Choice(
            Mode.CLEAN,
            f"{known.generation} optimized runs came since the last clean one, and the index is "
            "made anew",
        )
    return Choice(Mode.OPTIMIZED, f"the checkpoint of run {known.run} counts")


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
    known: Known, *, live: AbstractSet[str], there: AbstractSet[str]
) -> SnapshotChanges:
    """Compare the live snapshots of a checkpoint with those of now.

    ``there`` has every snapshot of which containers may be left, dead ones included.
    """
    died = known.live - live
    return SnapshotChanges(frozenset(live - known.live), frozenset(died), frozenset(died - there))


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


def find_overlapping(parts: Sequence[tuple[str, str]], partitions: Iterable[str]) -> list[int]:
    """The numbers of those parts of the index that may have rows of some partitions.

    A part has its first and its last partition; its rows are sorted.
    """
    wanted = sorted(partitions)
    overlapping = []
    for number, (first, last) in enumerate(parts):
        at = bisect_left(wanted, first)
        if at < len(wanted) and wanted[at] <= last:
            overlapping.append(number)
    return overlapping

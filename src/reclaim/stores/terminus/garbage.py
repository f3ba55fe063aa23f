"""What dead layers once were, as far as the graph can tell.

Nothing in a store records why a layer is not referred to any more. These are guesses for a
report, made in this order; nothing is decided by them.

1. A layer that cannot be read is an *unfinished layer*, left by a crash.
2. A layer that a rollup wrote (it has id maps) and that no dead layer is loaded through is a
   *superseded rollup*. So is one whose writer died before it was put to use.
3. The rest is taken from its tops, dead layers that no dead layer refers to. A top whose line of
   parents is dead down to a base layer is a whole graph that lost its label. If layers of the line
   name others as data and none of those is live, a *deleted database*: meta graph, commit graphs
   and data lost their only label together. If some are live, a *squashed graph*: another graph
   took its place and names the same. A deleted database whose layers a clone shares looks like
   this, too.
4. A whole graph that names nothing was a *squashed graph* if it has several layers, for each of
   them must have had a label once. In a store without databases it may as well have been deleted.
5. Everything else is an *orphan of a failed transaction*: one layer that names nothing, or layers
   on top of live ones, or of dead ones that belong to a group above. A transaction that lost a
   race leaves up to three, one in each graph. A deleted fork of a database that still lives looks
   like this, too.

A group takes with it every dead layer that it reaches; where two groups reach one, the earlier
in this list has it, and a deleted database before a squashed graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from reclaim.model import SnapshotId
from reclaim.stores.terminus.graph import Layers, deletion_order
from reclaim.stores.terminus.layer import Layer


class Garbage(StrEnum):
    """What a dead layer was."""

    DELETED_DATABASE = "deleted database"
    SUPERSEDED_ROLLUP = "superseded rollup"
    SQUASHED_GRAPH = "squashed graph"
    FAILED_TRANSACTION = "orphan of a failed transaction"
    UNFINISHED = "unfinished layer"


@dataclass(frozen=True, slots=True)
class _Line:
    """A dead layer and the dead ones below it: how many, and what they stand on and name."""

    length: int
    whole: bool
    names: bool
    names_live: bool


def classify(layers: Layers, dead: Collection[SnapshotId]) -> dict[SnapshotId, Garbage]:
    """What each dead layer was; one that is not in ``layers`` could not be read."""
    kinds = dict.fromkeys((one for one in dead if one not in layers), Garbage.UNFINISHED)
    readable = {one: layers[one] for one in deletion_order(layers, dead) if one in layers}
    loaded = {layer.rollup for layer in readable.values()}
    for one, layer in readable.items():
        if layer.rolled_up and one not in loaded:
            kinds[one] = Garbage.SUPERSEDED_ROLLUP
    rest = {one: layer for one, layer in readable.items() if one not in kinds}
    lines = _lines(layers, rest, kinds.keys() | readable.keys())
    below = {target for layer in rest.values() for target in _refers(layer)}
    longest = sorted(rest, key=lambda one: (-lines[one].length, one))
    tops = [one for one in longest if one not in below]

    naming = [one for one in tops if lines[one].whole and lines[one].names]
    deleted = [one for one in naming if not lines[one].names_live]
    _claim(kinds, rest, deleted, Garbage.DELETED_DATABASE)
    _claim(kinds, rest, naming, Garbage.SQUASHED_GRAPH)
    for top in tops:
        if top in kinds:
            continue
        line = lines[top]
        if line.whole and line.length > 1 and _unclaimed(kinds, rest, top) == line.length:
            _claim(kinds, rest, (top,), Garbage.SQUASHED_GRAPH)
        else:
            _claim(kinds, rest, (top,), Garbage.FAILED_TRANSACTION)
    # Cycles have no top.
    return kinds | {one: Garbage.FAILED_TRANSACTION for one in rest if one not in kinds}


def _refers(layer: Layer) -> Iterator[SnapshotId]:
    if layer.parent is not None:
        yield layer.parent
    if layer.rollup is not None:
        yield layer.rollup
    yield from layer.names


def _lines(
    layers: Layers, rest: dict[SnapshotId, Layer], dead: Collection[SnapshotId]
) -> dict[SnapshotId, _Line]:
    """The line of each layer, from that of its parent: parents come last in ``rest``."""
    lines: dict[SnapshotId, _Line] = {}
    for one, layer in reversed(rest.items()):
        under = lines.get(layer.parent) if layer.parent is not None else None
        live = any(name in layers and name not in dead for name in layer.names)
        if under is None:
            lines[one] = _Line(1, layer.parent is None, bool(layer.names), live)
        else:
            names = under.names or bool(layer.names)
            lines[one] = _Line(under.length + 1, under.whole, names, under.names_live or live)
    return lines


def _unclaimed(
    kinds: Mapping[SnapshotId, Garbage], rest: Mapping[SnapshotId, Layer], top: SnapshotId
) -> int:
    """How many layers of a line belong to no group yet, from its top on."""
    count = 0
    at: SnapshotId | None = top
    while at is not None and at in rest and at not in kinds and count <= len(rest):
        count += 1
        at = rest[at].parent
    return count


def _claim(
    kinds: dict[SnapshotId, Garbage],
    rest: Mapping[SnapshotId, Layer],
    tops: Iterable[SnapshotId],
    kind: Garbage,
) -> None:
    """Give a kind to dead layers that have none, and to those that they reach."""
    pending = [top for top in tops if top not in kinds]
    kinds.update(dict.fromkeys(pending, kind))
    while pending:
        for target in _refers(rest[pending.pop()]):
            if target in rest and target not in kinds:
                kinds[target] = kind
                pending.append(target)

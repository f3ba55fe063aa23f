"""States that differ only in their ids are written down alike.

Ids follow from who made them and when, so two orders give the same thing different ids. What an id
stands for is told by the lines that it turns up in, and by the ids beside it there. The lines are
sorted by that, and then each id becomes its place in the order in which they turn up. So two texts
that are equal are the same but for the names of ids, whatever the sorting was.

Ids that cannot be told apart are like the two sides of a mirror: one of them is called the first,
and what belongs to it goes with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

ID = re.compile(r"[0-9a-f]{32,64}")
ROUNDS = 4
"""So far away from a line an id may be, and still tell it from another."""

Parts = Sequence[tuple[int, Sequence[str]]]
"""Of each line a number for its text without ids, and the ids in it."""
Colors = dict[str, int]


def canonical(lines: Sequence[str]) -> str:
    """The lines in an order that does not depend on ids, with numbers for these."""
    parts = [(crc32(ID.sub("#", line).encode()), ID.findall(line)) for line in lines]
    colors = _told_apart(parts, dict.fromkeys((name for _, names in parts for name in names), 0))
    while (alike := _find_alike(colors)) is not None:
        colors = _told_apart(parts, colors | {alike: hash((colors[alike], 1))})
    keys = [(text, *(colors[name] for name in names)) for text, names in parts]
    order: dict[str, str] = {}
    ordered = sorted(zip(keys, lines, strict=True))
    return "\n".join(
        ID.sub(lambda match: order.setdefault(match[0], f"#{len(order)}"), line)
        for _, line in ordered
    )


def _told_apart(parts: Parts, colors: Colors) -> Colors:
    """Colors that differ where ids turn up in other lines, or beside other ids."""
    for _ in range(ROUNDS):
        places: defaultdict[str, list[int]] = defaultdict(list)
        for text, names in parts:
            line = hash((text, *(colors[name] for name in names)))
            for at, name in enumerate(names):
                places[name].append(hash((line, at)))
        known = len({*colors.values()})
        colors = {name: hash((color, *sorted(places[name]))) for name, color in colors.items()}
        if len({*colors.values()}) == known:
            break
    return colors


def _find_alike(colors: Colors) -> str | None:
    """One of the ids that share a color, if any do."""
    of_color: defaultdict[int, list[str]] = defaultdict(list)
    for name, color in colors.items():
        of_color[color].append(name)
    shared = [color for color, names in of_color.items() if len(names) > 1]
    return min(of_color[min(shared)]) if shared else None

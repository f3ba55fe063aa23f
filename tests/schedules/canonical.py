"""States that differ only in their ids are written down alike.

Ids follow from who made them and when, so two orders give the same thing different ids. What an id
stands for is told by the lines that it turns up in, and by the ids beside it there. The lines are
sorted by that, and then each id becomes its place in the order in which they turn up. So two texts
that are equal are the same but for the names of ids, whatever the sorting was.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from zlib import crc32

ID = re.compile(r"[0-9a-f]{32,64}")
ROUNDS = 4
"""So far away from a line an id may be, and still tell it from another."""


def canonical(lines: Sequence[str]) -> str:
    """The lines in an order that does not depend on ids, with numbers for these."""
    parts = [(crc32(ID.sub("#", line).encode()), ID.findall(line)) for line in lines]
    colors = dict.fromkeys((name for _, names in parts for name in names), 0)
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
    keys = [(text, *(colors[name] for name in names)) for text, names in parts]
    order: dict[str, str] = {}
    ordered = sorted(zip(keys, lines, strict=True))
    return "\n".join(
        ID.sub(lambda match: order.setdefault(match[0], f"#{len(order)}"), line)
        for _, line in ordered
    )

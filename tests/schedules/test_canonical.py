"""States that differ only in their ids are written down alike, and no others."""

from __future__ import annotations

import random
from itertools import pairwise

from tests.schedules.canonical import canonical


def ids(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [f"{chance.getrandbits(128):032x}" for _ in range(count)]


def chain(names: list[str]) -> list[str]:
    """Things of which each points at the next, and all at the first."""
    links = [f"link ('{one}', '{other}')" for one, other in pairwise(names)]
    return [*links, *(f"of {names[0]} is {name}" for name in names)]


def test_other_ids_are_the_same() -> None:
    texts = {canonical(random.Random(seed).sample(chain(ids(6, seed)), 11)) for seed in range(20)}
    assert len(texts) == 1


def test_ids_that_cannot_be_told_apart() -> None:
    """Twins, each with something of its own: who is called the first makes no difference."""

    def twins(seed: int) -> list[str]:
        one, other, mine, yours = ids(4, seed)
        return [f"a {one}", f"a {other}", f"b {mine} of {one}", f"b {yours} of {other}"]

    assert len({canonical(twins(seed)) for seed in range(20)}) == 1


def test_another_shape_is_not() -> None:
    names = ids(6, 0)
    crossed = chain(names)
    crossed[1], crossed[3] = (
        f"link ('{names[1]}', '{names[4]}')",
        f"link ('{names[3]}', '{names[2]}')",
    )
    assert canonical(crossed) != canonical(chain(names))
    assert canonical([*chain(names), "more"]) != canonical(chain(names))

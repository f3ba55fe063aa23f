"""The examples of a page: commands or programs, and the output that the page shows for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOT_RUN = "<!-- not run by the tests -->"
"""Stands before a block that belongs to the reader's machine, such as an installation."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n?", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Example:
    """One block to run, in which language, and what it must print; None if nothing is shown."""

    line: int
    language: str
    text: str
    shown: str | None


def read_examples(page: Path) -> Iterator[Example]:
    """The blocks in ``sh`` and ``python``, each with a ``text`` block that follows at once."""
    text = page.read_text()
    blocks = list(_BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] not in ("sh", "python") or text[: block.start()].rstrip().endswith(NOT_RUN):
            continue
        answered = following and following[1] == "text" and following.start() == block.end()
        line = text.count("\n", 0, block.start()) + 1
        yield Example(line, block[1], block[2], following[2] if following and answered else None)

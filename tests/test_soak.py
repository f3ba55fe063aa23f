"""``make soak`` runs every test that does more there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOES_MORE = re.compile(
    r"^from tests\.support\.soak import|\beach_death\(|\bremote_values\(", re.MULTILINE
)
"""What tells of a file that it does more in a soak: by itself, or by what it uses."""


def soaked() -> list[str]:
    """What the target names."""
    recipe = re.search(r"^soak:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    return re.findall(r"\btests/\S+", recipe[1])


def test_what_is_named_is_there() -> None:
    assert soaked()
    assert [name for name in soaked() if not (ROOT / name).exists()] == []


def test_all_that_does_more_in_a_soak_is_named() -> None:
    # Tools in `support` are used by tests in the other folders.
    files = [
        file
        for file in (ROOT / "tests").glob("*/**/*.py")
        if file.parts[len(ROOT.parts) + 1] != "support" and DOES_MORE.search(file.read_text())
    ]
    assert files
    names = [file.relative_to(ROOT).as_posix() for file in files]
    missing = [name for name in names if not any(_is_below(name, one) for one in soaked())]
    assert missing == []


def _is_below(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}/")

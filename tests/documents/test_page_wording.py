"""Plain English in every page: few pronouns, in text and in tables. Code blocks do not count."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.test_wording import LIMITS

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(
        page
        for page in sorted(DOCS.rglob("*.md"))
        if page.relative_to(DOCS).parts[0] != "decisions"
    ),
]
_CODE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)


def count_words(text: str) -> dict[str, float]:
    """Uses of each limited word per 1,000 words outside code blocks."""
    words = Counter(re.findall(r"[a-z']+", _CODE.sub("", text).lower()))
    return {word: round(1000 * words[word] / max(1, words.total()), 1) for word in LIMITS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_plain(page: Path) -> None:
    counted = count_words(page.read_text(encoding="utf-8"))
    assert {word: rate for word, rate in counted.items() if rate > LIMITS[word]} == {}


def test_words_are_counted() -> None:
    text = "What one has.\n\n```sh\nwhat one that\n```\n\nAnd that.\n"
    assert count_words(text) == {"what": 200.0, "one": 200.0, "that": 200.0}

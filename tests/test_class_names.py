"""One word for one thing: no two public classes of the package have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

SOURCE = Path(__file__).resolve().parent.parent / "src" / "reclaim"


def used_twice(source: Path) -> dict[str, list[str]]:
    """Class names with the files that define them, where there is more than one."""
    files = defaultdict(list)
    for file in sorted(source.rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8"), filename=str(file)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(file.relative_to(source).as_posix())
    return {name: where for name, where in files.items() if len(where) > 1}


def test_no_class_name_is_used_twice() -> None:
    assert used_twice(SOURCE) == {}


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("class Entry: ...", {"Entry": ["a/x.py", "b.py"]}),
        ("class ConfigEntry: ...", {}),
        ("class _Entry: ...", {}),
        ("def Entry() -> None: ...", {}),
    ],
)
def test_one_that_is_used_twice_is_found(
    tmp_path: Path, second: str, found: dict[str, list[str]]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_text("class Entry: ...\n", encoding="utf-8")
    (tmp_path / "b.py").write_text(second + "\n", encoding="utf-8")
    assert used_twice(tmp_path) == found

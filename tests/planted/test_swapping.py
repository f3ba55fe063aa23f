"""A bug in a module that is loaded: wherever its functions went, they have it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.planted.bug import Bug, Change
from tests.planted.swapping import Functions, NotSwappable

NAME = "planted_sample"
SOURCE = """
from dataclasses import dataclass
from functools import cache, wraps

LIMIT = 3

def allowed(count: int, limit: int = LIMIT) -> bool:
    return count < limit

def doubled(work):
    @wraps(work)
    def twice(*args):
        return work(*args) * 2
    return twice

@dataclass
class Sum:
    start: int = 1

    def add(self, number: int) -> int:
        return self.start + sum(part for part in range(number))

    @property
    def end(self) -> int:
        return self.start

@doubled
def one() -> int:
    return 1

@cache
def cached() -> int:
    return 5

both = (lambda: 1), (lambda: 2)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / f"{NAME}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module(NAME)
    del sys.modules[NAME]


def plant(module: ModuleType, right: str, wrong: str, *besides: Change) -> None:
    assert module.__file__
    bug = Bug(NAME, right, wrong, besides=besides)
    Functions(Path(module.__file__).parent).plant(bug)


def test_a_function_that_another_has_imported(module: ModuleType) -> None:
    elsewhere = module.allowed
    plant(module, "return count < limit", "return count <= limit")
    assert elsewhere(3)


def test_what_stands_below_has_other_lines(module: ModuleType) -> None:
    made = module.Sum()
    plant(module, "    return count < limit", "    pass\n    pass\n    return True")
    assert module.allowed(9)
    assert (made.add(3), made.end, module.one(), module.cached()) == (4, 1, 2, 5)


def test_methods_and_properties(module: ModuleType) -> None:
    made = module.Sum()
    plant(module, "sum(part for", "sum(-part for", Change(NAME, "return self.start\n", "return 8"))
    assert (made.add(3), made.end) == (-2, 8)


def test_what_a_decorator_has_made(module: ModuleType) -> None:
    plant(module, "return work(*args) * 2", "return work(*args) * 3")
    assert module.one() == 3


def test_what_a_decorator_has_wrapped(module: ModuleType) -> None:
    plant(module, "return 1\n", "return 4\n", Change(NAME, "return 5", "return 6"))
    assert (module.one(), module.cached()) == (8, 6)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("limit: int = LIMIT", "limit: int = 9"),
        ("start: int = 1", "start: int = 2"),
        ("@doubled\n", ""),
        ("    def add(", "    def more(self): ...\n\n    def add("),
        ("(lambda: 1)", "(lambda: 3)"),
    ],
    ids=["constant", "default", "field", "decorator", "method", "two at one place"],
)
def test_what_cannot_be_planted(module: ModuleType, right: str, wrong: str) -> None:
    with pytest.raises(NotSwappable):
        plant(module, right, wrong)

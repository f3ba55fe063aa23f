"""The public names: what is exported, and that it is typed and documented."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import reclaim

ROOT = Path(__file__).parents[2]
PUBLIC = {
    "Catalog",
    "GcResult",
    "OpenStore",
    "Plan",
    "PlanSummary",
    "Policy",
    "Progress",
    "ReclaimError",
    "Run",
    "errors",
    "list_stores",
    "open_catalog",
    "open_plan",
    "open_store",
}


def members(name: str) -> Iterator[tuple[str, object]]:
    """The public functions of a name: itself, or the methods of a class."""
    value = getattr(reclaim, name)
    if inspect.isfunction(value):
        yield name, value
    elif inspect.isclass(value):
        for own, member in vars(value).items():
            if own.startswith("_"):
                continue
            if isinstance(member, property):
                member = member.fget
            if isinstance(member, classmethod):
                member = member.__func__
            if inspect.isfunction(member):
                yield f"{name}.{own}", member


def test_the_names_are_those_that_are_documented() -> None:
    assert set(reclaim.__all__) == PUBLIC
    assert list(reclaim.__all__) == sorted(reclaim.__all__)
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert not [name for name in PUBLIC if name not in page]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    value = getattr(reclaim, name)
    assert inspect.getdoc(value)
    assert name in dir(reclaim)


def test_every_function_has_types() -> None:
    untyped = [
        named
        for name in PUBLIC - {"errors"}
        for named, function in members(name)
        for parameter in inspect.signature(typing.cast(typing.Any, function)).parameters.values()
        if parameter.name not in ("self", "cls") and parameter.annotation is parameter.empty
    ]
    assert not untyped


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'expire'"):
        _ = reclaim.expire

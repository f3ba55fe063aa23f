"""See each check fail once: with a bug planted, the test that guards against it must fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.planted.noticed import check_noticed
from tests.planted.plant import BUGS, FIRST


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FIRST else pytest.mark.exhaustive, id=name)
        for name in BUGS
    ],
)
def test_a_planted_bug_is_noticed(name: str, servers: Mapping[str, str]) -> None:
    check_noticed(name, servers)

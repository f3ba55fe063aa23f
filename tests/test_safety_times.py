"""The times that safety rests on hold together, and no check of them is idle."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from reclaim.safety import SAFETY, SafetyTimes

pytestmark = pytest.mark.fast

FACTORS = (0, 0.001, 0.1, 0.5, 2, 10, 1000)


def broken(times: SafetyTimes | Exception) -> str:
    return str(times).partition(": ")[2]


def test_each_check_can_fail() -> None:
    """Some change of one duration breaks each check."""
    noticed = set()
    for field in fields(SAFETY):
        for factor in FACTORS:
            try:
                replace(SAFETY, **{field.name: getattr(SAFETY, field.name) * factor})
            except ValueError as error:
                noticed.add(broken(error))
    assert noticed == SAFETY.invariants().keys()


@pytest.mark.parametrize("name", [field.name for field in fields(SAFETY)])
def test_no_duration_is_free(name: str) -> None:
    """Each is held by a check besides that it is positive, or is a wish that has no upper end."""
    changed = []
    for factor in FACTORS[1:]:
        try:
            replace(SAFETY, **{name: getattr(SAFETY, name) * factor})
        except ValueError as error:
            changed.append(broken(error))
    assert changed


def test_a_time_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        SafetyTimes(request=timedelta(0))

"""The troubled machine: known sequences that once lost something, and random ones."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.support.soak import SOAK
from tests.terminus.sequences import SEQUENCES, follow
from tests.terminus.troubled_machine import TroubledMachine

pytestmark = pytest.mark.repeats(first=4)


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_known_sequence(name: str) -> None:
    follow(TroubledMachine(), SEQUENCES[name])


TestTroubledMachine = TroubledMachine.TestCase
TestTroubledMachine.settings = settings(
    settings.default, max_examples=2_500 if SOAK else 10, stateful_step_count=8, deadline=None
)

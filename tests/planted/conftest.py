"""Servers for all planted bugs of a test process."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.shared_servers import share

FEW = 20
"""So many tests start the servers that they need, of which most need none."""


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The variables by which a fork finds the servers of this process."""
    if request.session.testscollected <= FEW:
        return {}
    return share(request.getfixturevalue("s3"), request.getfixturevalue("postgres"))

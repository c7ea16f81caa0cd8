"""Fixtures for tests that kill programs of embedded clusters."""

import pytest


@pytest.fixture(params=[21, pytest.param(7, marks=pytest.mark.long)])
def step(request: pytest.FixtureRequest) -> int:
    """Return how many function calls lie between two places where a program is killed."""
    return int(request.param)

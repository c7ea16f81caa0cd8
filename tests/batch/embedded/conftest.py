"""Fixtures for tests that kill programs of embedded clusters."""

import pytest


@pytest.fixture(params=[21, pytest.param(7, marks=pytest.mark.long)])
def step(request: pytest.FixtureRequest) -> int:
    """Return the number of function calls between two kills of a program."""
    return int(request.param)

"""Storage areas for the tests of rebalancing."""

from pathlib import Path

import pytest

from tests.rebalance.mover.areas import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)

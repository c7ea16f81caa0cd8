"""A task in a transfer queue between two small cells."""

from pathlib import Path

import pytest

from tests.transfer.starter.cells import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)

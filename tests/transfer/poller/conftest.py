"""The poller's machine as a fixture."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[object]:
    from tests.transfer.poller.test_transfer_round import Machine  # late, so that pytest rewrites its assertions

    machine = Machine(tmp_path)
    yield machine
    machine.service.shut_down()

"""Readings of this host's clocks are stored from one run of nikita to the next run."""

from pathlib import Path

import pytest

from gridbridge.campaigns.store import host_clock_jumps
from gridbridge.model.host_clocks import ClockJump, HostClockReadings
from tests.builders.campaigns import NOON

KNOWN = HostClockReadings(boot="b", wall=NOON, steady_s=7.5, leaps=(ClockJump(at=NOON, by_s=3600.0),))


def test_stored_clock_readings_are_read_back(tmp_path: Path) -> None:
    path = f"{tmp_path}/nikita.clocks"
    host_clock_jumps.save_host_clock_readings(KNOWN, path)

    assert host_clock_jumps.read_host_clock_readings(path) == KNOWN


@pytest.mark.parametrize("text", [None, "", "[]", '{"leaps": 1}', '{"leaps": [], "wall": "noon"}'])
def test_unreadable_clock_readings_are_ignored(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "nikita.clocks"
    if text is not None:
        path.write_text(text)

    assert host_clock_jumps.read_host_clock_readings(str(path)) is None

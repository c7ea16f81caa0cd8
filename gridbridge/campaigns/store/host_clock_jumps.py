"""Detects jumps of this host's clock between two cycles of the runner or nikita.

The clock readings of the last cycle are in a file, because the cycles may run in different processes.
"""

import json
import logging
from datetime import datetime

from gridbridge.errors import StateError
from gridbridge.model.fixed_paths import NIKITA_CLOCKS
from gridbridge.model.host_clocks import ClockJump, HostClockReadings, record_clock_jumps
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock

MAX_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class HostClockJumpDetector:
    def __init__(self, clock: Clock, path: str = NIKITA_CLOCKS) -> None:
        self._clock = clock
        self._path = path
        self._seen: HostClockReadings | None = None

    def detect_clock_jumps(self) -> tuple[ClockJump, ...]:
        before = read_host_clock_readings(self._path)
        self._seen = record_clock_jumps(before, self._clock.read_host_clocks())
        for jump in self._seen.leaps[len(before.leaps) if before else 0 :]:
            _log.warning("event=clock_set by_s=%+.0f", jump.by_s)
        return self._seen.leaps

    def save_clock_readings(self) -> None:
        """Save the clock readings, so that the next cycle detects only new jumps."""
        try:
            if self._seen:
                save_host_clock_readings(self._seen, self._path)
        except StateError as error:
            _log.warning("event=not_kept why=%r", str(error))


def save_host_clock_readings(clocks: HostClockReadings, path: str = NIKITA_CLOCKS) -> None:
    """Save the readings of this host's clocks; raises StateError if the disk is full."""
    table = {
        "boot": clocks.boot,
        "wall": clocks.wall.isoformat(),
        "steady_s": clocks.steady_s,
        "leaps": [[jump.at.isoformat(), jump.by_s] for jump in clocks.leaps],
    }
    safe_files.replace_file_atomically(path, json.dumps(table).encode())


def read_host_clock_readings(path: str = NIKITA_CLOCKS) -> HostClockReadings | None:
    try:
        table = json.loads(safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0])
        leaps = [(datetime.fromisoformat(at), float(by_s)) for at, by_s in table["leaps"]]
        return HostClockReadings(
            boot=str(table["boot"]),
            wall=datetime.fromisoformat(table["wall"]),
            steady_s=float(table["steady_s"]),
            leaps=tuple(ClockJump(at=at, by_s=by_s) for at, by_s in leaps),
        )
    except (OSError, StateError, ValueError, KeyError, TypeError):
        return None

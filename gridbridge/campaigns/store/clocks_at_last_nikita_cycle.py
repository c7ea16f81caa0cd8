"""Store this host's wall clock and monotonic clock at nikita's last cycle.

The clock readings belong to this host, so they are in a file of their own, not in the state file.
"""

import json
from datetime import datetime

from gridbridge.errors import StateError
from gridbridge.model.campaigns.nikita_deletion_values import ClockJump, HostClockReadings
from gridbridge.model.fixed_paths import NIKITA_CLOCKS
from gridbridge.shell import safe_files

MAX_BYTES = 1 << 20


def save_nikita_host_clocks(clocks: HostClockReadings, path: str = NIKITA_CLOCKS) -> None:
    """Save the clocks; StateError if the disk is full."""
    table = {
        "boot": clocks.boot,
        "wall": clocks.wall.isoformat(),
        "steady_s": clocks.steady_s,
        "leaps": [[jump.at.isoformat(), jump.by_s] for jump in clocks.leaps],
    }
    safe_files.replace_file_atomically(path, json.dumps(table).encode())


def read_nikita_host_clocks(path: str = NIKITA_CLOCKS) -> HostClockReadings | None:
    """Read the saved clocks; None if there is no readable file."""
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

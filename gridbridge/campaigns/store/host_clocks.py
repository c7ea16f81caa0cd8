"""What this host's clocks said when nikita last looked: a file, for they are this host's alone."""

import json
from datetime import datetime

from gridbridge.errors import StateError
from gridbridge.model.campaigns.cancellation import CancellationClocks, ClockJump
from gridbridge.model.places import NIKITA_CLOCKS
from gridbridge.shell import files

MAX_BYTES = 1 << 20


def put(clocks: CancellationClocks, path: str = NIKITA_CLOCKS) -> None:
    """Keep it; StateError when there is no room."""
    told = {
        "boot": clocks.boot,
        "wall": clocks.wall.isoformat(),
        "steady_s": clocks.steady_s,
        "leaps": [[one.at.isoformat(), one.by_s] for one in clocks.leaps],
    }
    files.replace(path, json.dumps(told).encode())


def read(path: str = NIKITA_CLOCKS) -> CancellationClocks | None:
    """Return it; None where there is none that can be read."""
    try:
        told = json.loads(files.read(path, MAX_BYTES)[0])
        leaps = [(datetime.fromisoformat(at), float(by_s)) for at, by_s in told["leaps"]]
        return CancellationClocks(
            boot=str(told["boot"]),
            wall=datetime.fromisoformat(told["wall"]),
            steady_s=float(told["steady_s"]),
            leaps=tuple(ClockJump(at=at, by_s=by_s) for at, by_s in leaps),
        )
    except (OSError, StateError, ValueError, KeyError, TypeError):
        return None

"""The campaign runner of the lab's site, and campaigns as their owners see them."""

import json
from typing import Any

from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

HOST = "alpha-master"
LOG = "/var/lib/gridbridge/runner.log"
PROGRAM = "/opt/gridbridge/bin/gridbridge-runner"
FIND = f"pgrep -u gridbridge -of '{PROGRAM} --loop'"
START = f"{FIND} || setsid runuser -u gridbridge -- {PROGRAM} --loop >>{LOG} 2>&1 </dev/null &"
CAMPAIGN_S = 120.0  # OAR starts a job after some seconds, and a cycle comes every 15 s


def start(grid: Grid) -> None:
    """Have the runner run, as systemd would."""
    grid.sh(HOST, START)
    grid.until(lambda: grid.on(HOST, "sh", "-c", FIND).status == 0, "the runner to run")


def stop(grid: Grid) -> None:
    """End the runner, so that the next one reads the configuration anew."""
    grid.sh(HOST, f"{FIND} | xargs -r kill")
    grid.until(lambda: grid.on(HOST, "sh", "-c", FIND).status != 0, "the runner to end")


def submit(grid: Grid, jdl: dict[str, Any], *options: str, user: str = "alice") -> int:
    """Submit a campaign and return its number."""
    argv = ("gridsub", *options, "-")
    done = grid.on(HOST, *argv, user=user, stdin=json.dumps(jdl), timeout_s=200)
    assert done.status == 0, done
    return int(done.out.rpartition("CAMPAIGN_ID=")[2])


def shown(grid: Grid, number: int) -> dict[str, Any]:
    """Return what everybody may see of a campaign."""
    (found,) = json.loads(grid.on(HOST, "gridstat", "--json", str(number), user="bob").out)
    assert isinstance(found, dict)
    return found


def until_state(grid: Grid, number: int, state: str) -> dict[str, Any]:
    """Wait until a campaign is in a state, and return it."""

    def look() -> dict[str, Any] | None:
        found = shown(grid, number)
        return found if found["state"] == state else None

    return grid.until(look, f"campaign {number} to be {state}", CAMPAIGN_S) or {}


def arrays_at_gamma(grid: Grid) -> list[str]:
    """Return the files of arrays that lie at gamma, where no task of alice's lives."""
    return grid.sh(FAR, "cd ~/.gridbridge && ls -d array.* 2>/dev/null; :", user=ACCOUNT).split()

"""The campaign runner of the lab's site, and campaigns as their owners see them."""

import json
import re
from collections import Counter
from typing import Any

from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

HOST = "alpha-master"
LOG = "/var/lib/gridbridge/runner.log"
PUBLISHED = "/var/lib/gridbridge/published/campaigns.json"
PROGRAM = "/opt/gridbridge/bin/gridbridge-runner"
FIND = f"pgrep -u gridbridge -of '{PROGRAM} --loop'"
START = f"{FIND} || setsid runuser -u gridbridge -- {PROGRAM} --loop >>{LOG} 2>&1 </dev/null &"
KILLED = (*("/opt/gridbridge/venv/bin/python3", "-I"), "/mnt/checkout/tests/lab/campaigns/faults/killed.py")
CAMPAIGN_S = 180.0  # OAR starts a job after some seconds, and a cycle comes every 15 s


def start(grid: Grid) -> None:
    grid.sh(HOST, START)
    grid.until(lambda: grid.on(HOST, "sh", "-c", FIND).status == 0, "the runner to run")


def stop(grid: Grid) -> None:
    grid.sh(HOST, f"{FIND} | xargs -r kill")
    grid.until(lambda: grid.on(HOST, "sh", "-c", FIND).status != 0, "the runner to end")


def submit(grid: Grid, jdl: dict[str, Any], *options: str, user: str = "alice") -> int:
    argv = ("gridsub", *options, "-")
    done = grid.on(HOST, *argv, user=user, stdin=json.dumps(jdl), timeout_s=200)
    assert done.status == 0, done
    return int(done.out.rpartition("CAMPAIGN_ID=")[2])


def shown(grid: Grid, number: int) -> dict[str, Any]:
    (found,) = campaigns(grid, str(number))
    return found


def campaigns(grid: Grid, *chosen: str) -> list[dict[str, Any]]:
    """Return the public state of all campaigns, or of one, from gridstat."""
    found = json.loads(grid.on(HOST, "gridstat", "--json", *chosen, user="bob").out)
    assert isinstance(found, list)
    return found


def published(grid: Grid, number: int) -> dict[str, Any]:
    """Return the public state of a campaign from the published file, which is cheaper than gridstat."""
    told = json.loads(grid.sh(HOST, f"cat {PUBLISHED}"))["campaigns"]
    return next(one for one in told if one["number"] == number)


def running_tasks(grid: Grid, number: int) -> int:
    return sum(one["running"] for one in published(grid, number)["at"])


def events_by_code(grid: Grid, number: int) -> dict[str, dict[str, Any]]:
    told = grid.on(HOST, "gridevents", "-a", "--json", "-c", str(number), user="bob").out
    return {one["code"]: one for one in json.loads(told)}


def end_all(grid: Grid) -> None:
    """Cancel all unfinished campaigns as root, since they would stay without a runner."""
    left = [str(one["number"]) for one in campaigns(grid) if one["state"] == "in_treatment"]
    if left:
        grid.on(HOST, "griddel", *left, timeout_s=200)


def ledger(grid: Grid, number: int) -> list[list[str]]:
    told = grid.on(HOST, "cat", f"/var/lib/gridbridge-ledger/c.{number}").out
    return [line.split() for line in told.splitlines()]


def clusters_of(grid: Grid, number: int) -> set[str]:
    return {row[2] for row in ledger(grid, number) if row[0] == "array"}


def jobs_of(grid: Grid, number: int) -> list[str]:
    return [row[2] for row in ledger(grid, number) if row[0] == "job"]


def at_beta(grid: Grid, number: int) -> list[str]:
    """Return the lines of a campaign's tasks in beta's job list, held tasks included."""
    listed = grid.cell("beta", "qstat", "-r", "-u", "alice").out
    ours = re.compile(rf"\b(campaign|gc\.alpha)\.{number}\b")
    return [line for line in listed.splitlines() if ours.search(line)]


def at_gamma(grid: Grid, number: int) -> list[str]:
    told = grid.sh("gamma-master", "oarstat -J", user="gb_gamma")
    return [line for line in told.splitlines() if f"gc.alpha.{number}." in line]


def until_state(grid: Grid, number: int, state: str) -> dict[str, Any]:
    what = f"campaign {number} to be {state}"
    grid.until(lambda: published(grid, number)["state"] == state, what, CAMPAIGN_S)
    return shown(grid, number)


def outcomes(grid: Grid, number: int) -> Counter[str]:
    query = f"select outcome from campaign_attempts where campaign = {number}"
    rows = f"sqlite3.connect('/var/lib/gridbridge/state.db').execute('{query}')"
    program = f"import sqlite3; [print(*row) for row in {rows}]"
    return Counter(grid.sh(HOST, f'python3 -c "{program}"').split())


def arrays_at_gamma(grid: Grid) -> list[str]:
    """Return the array files left at gamma, once gamma lists no task of alice."""
    return grid.sh(FAR, "cd ~/.gridbridge && ls -d array.* 2>/dev/null; :", user=ACCOUNT).split()


def killed(grid: Grid, place: str, program: str, *words: str, user: str = "root") -> bool:
    """Run an installed program under killed.py; say whether it reached the place of the kill."""
    told = grid.on(HOST, *KILLED, place, program, *words, user=user, timeout_s=100)
    assert told.out, told
    return "not killed" not in told.out

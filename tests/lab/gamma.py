"""Gamma as the tests of its transfer queue see it: OAR's jobs, and files and processes left there."""

import json
from typing import Any

from tests.lab.away import why
from tests.lab.grid import OAR_ALIVE, Grid

HOME, FAR = "alpha-master", "gamma-master"
NODES = ("gamma-n1", "gamma-n2")
ACCOUNT = "al_gamma"
DISK = "/var/lib/oar"  # of a node, where oarexec notes a job's nodes
QUEUE = "transfer-gamma"
LONG_S = 120  # a retry comes after a minute at most


class Gamma:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def submit(self, script: str, *options: str) -> str:
        return self.grid.submit("-q", QUEUE, "-N", "away", *options, script=script)

    def jobs(self) -> list[dict[str, Any]]:
        told = self.grid.sh(FAR, "oarstat -f -J", user="gb_gamma")
        return list(json.loads(told or "{}").values())

    def job(self, number: str) -> dict[str, Any]:
        told = self.grid.sh(FAR, f"oarstat -f -J -j {number}", user="gb_gamma")
        found: dict[str, Any] = json.loads(told)[number]
        return found

    def number(self, job: str, task: int = 0) -> str:
        """Wait until a local job has an id at gamma, and return this id."""
        words = rf"name=gb\.alpha\.{job}\.{task}\.[0-9]* text='submitted to gamma as \([0-9]*\),"
        script = f'sed -n "s/.*{words}.*/\\1/p" /var/lib/gridbridge/poller.log | tail -n 1'
        return self.grid.until(lambda: self.grid.sh(HOME, script), f"{job} to be at gamma").strip()

    def until_state(self, number: str, *states: str) -> None:
        self.grid.until(lambda: self.job(number)["state"] in states, f"{number} to be {states}")

    def read(self, name: str) -> str:
        """Return a file of alice's home at gamma; empty when the file does not exist."""
        return self.grid.sh(FAR, f"cat {name} 2>/dev/null || :", user=ACCOUNT)

    def read_at_home(self, name: str) -> str:
        return self.grid.sh(HOME, f"cat {name}", user="alice")

    def until_told(self, job: str, words: str) -> None:
        self.grid.until(lambda: words in why(self.grid, job), f"why {job} to tell {words!r}", LONG_S)

    def left(self) -> list[str]:
        live = [f"job {job['Job_Id']} {job['state']}" for job in self.jobs()]
        kept = "cd ~/.gridbridge 2>/dev/null || exit 0; ls -A -I stage; ls -A stage 2>/dev/null || :"
        files = self.grid.sh(FAR, kept, user=ACCOUNT).split()
        return live + files + [one for node in NODES for one in self._left_on(node)]

    def _left_on(self, node: str) -> list[str]:
        asked = f"ls -d /tmp/gridbridge.[0-9]* 2>/dev/null; ps -o args= -u {ACCOUNT}; :"
        return [line for line in self.grid.sh(node, asked).splitlines() if line]

    def until_clean(self) -> None:
        self.grid.until_none(self.left, "gamma to be clean", LONG_S)

    def until_open(self) -> None:
        self.grid.until(lambda: self.grid.is_open(queue=QUEUE), f"{QUEUE} to be open", LONG_S)

    def clear(self) -> None:
        self.grid.sh(HOME, "qdel -u alice; :", user="alice")
        self.grid.until(lambda: not self.grid.states(), "home to be empty", LONG_S)
        self.grid.on(FAR, "oardel", "--sql", OAR_ALIVE)
        self.until_clean()

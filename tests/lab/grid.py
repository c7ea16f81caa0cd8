"""The running lab as tests use it: commands on its hosts, jobs, and waiting with a limit."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import pytest

from tests.lab.agents import LAB, Agents
from tests.lab.agents import ROOT as ROOT
from tests.lab.agents import Done as Done

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
if WORKER != "gw0":
    os.environ["GRIDLAB"] = str(int(WORKER.removeprefix("gw")) + 1)  # each has a lab of its own
AGENTS = Agents()
CELL = {"alpha": "SGE_QMASTER_PORT=6444", "beta": "SGE_QMASTER_PORT=6454"}
EXECD = {"alpha": "SGE_EXECD_PORT=6445", "beta": "SGE_EXECD_PORT=6455"}

BY_SSH = ("transfer-delta", "transfer-gamma")
BACK = "transfer-alpha"  # of beta
MASTERS = ("alpha-master", "beta-master")
OAR_ALIVE = "state != 'Terminated' AND state != 'Error'"
OTHER = {"alpha": "beta", "beta": "alpha"}

PAUSE_S = 0.1  # between two looks, at first
BACK_OFF = 0.05  # of what was waited is added
LONGEST_PAUSE_S = 1.0
SHARE = 2  # a look is followed by a pause of as many times what it took: others wait as well
SLOW_PAUSE_S = 3.0  # but not longer

T = TypeVar("T")


def of_root() -> "Grid":
    """Return the lab; skip the test for any user but root."""
    if os.getuid() != 0:
        pytest.skip("the lab needs root")
    return Grid()


@pytest.fixture(scope="module", name="grid")
def unprepared_grid() -> "Grid":
    """Return the lab, whether or not gridbridge is set up and its transfer queues are open."""
    return of_root()


class Grid:
    """Runs the lab's commands; it has no state."""

    def on(self, host: str, *argv: str, user: str = "root", stdin: str = "", timeout_s: float = 60) -> Done:
        return AGENTS.run(host, argv, user, stdin, timeout_s)

    def sh(self, host: str, script: str, *, user: str = "root", timeout_s: float = 60) -> str:
        """Run a shell script on a host and return its output; it must succeed."""
        done = self.on(host, "sh", "-c", script, user=user, timeout_s=timeout_s)
        assert done.status == 0, f"{script!r} on {host}: {done}"
        return done.out

    def lab(self, *words: str, timeout_s: float = 120) -> None:
        subprocess.run([LAB, *words], check=True, capture_output=True, timeout=timeout_s)

    def cell(self, cluster: str, *argv: str, user: str = "alice") -> Done:
        """Run a Grid Engine client on alpha-master against one of the two cells."""
        cell = (f"SGE_CELL={cluster}", CELL[cluster], EXECD[cluster])
        return self.on("alpha-master", "env", *cell, *argv, user=user)

    def submit(self, *options: str, user: str = "alice", cluster: str = "alpha", script: str = "") -> str:
        """Submit a job from alpha-master and return its id; the script goes in by stdin."""
        cell = (f"SGE_CELL={cluster}", CELL[cluster], EXECD[cluster])
        argv = ("env", *cell, "qsub", "-terse", *options)
        done = self.on("alpha-master", *argv, user=user, stdin=script)
        assert done.status == 0, f"{argv}: {done}"
        return done.out.strip().splitlines()[-1].partition(".")[0]

    def transfer(self, *options: str, user: str = "alice", script: str = "") -> str:
        return self.submit("-l", "remote=true", *options, user=user, script=script)

    def overflow(self, *options: str, tasks: int = 1, script: str = "") -> str:
        """Submit a job that could run at home while home is closed, so that it crosses to beta.

        Home is open again, with free slots, when this returns.
        """
        self.cell("alpha", "qmod", "-d", "all.q", user="root")
        try:
            job = self.submit(*options, script=script)
            self.until(lambda: len(self.remote_ids(job)) == tasks, f"job {job} to cross")
        finally:
            self.cell("alpha", "qmod", "-e", "all.q", user="root")
        return job

    def states(self, cluster: str = "alpha") -> dict[str, str]:
        """Return the state letters of every job or task by `ID` or `ID.TASK`."""
        out = self.cell(cluster, "qstat", "-u", "*", "-g", "d", user="root").out
        rows = (line.split() for line in out.splitlines() if re.match(r"\s*\d", line))
        return {_key(row): row[4] for row in rows}

    def remote_ids(self, job: str, cluster: str = "alpha") -> list[str]:
        """Return all ids that a local job has had on the other cluster, from the poller's log."""
        there = rf"submitted to {OTHER[cluster]} as (\d+), "
        told = self.logged(f"name=gb.{cluster}.{job}.", cluster)
        return list(dict.fromkeys(re.findall(there, told)))

    def logged(self, words: str, cluster: str = "alpha") -> str:
        log = "/var/lib/gridbridge/poller.log"
        return self.on(f"{cluster}-master", "grep", "-aF", words, log).out

    def remote_id(self, job: str, cluster: str = "alpha") -> str:
        """Wait until a local job has a remote id, and return the latest remote id."""
        ids = self.until(lambda: self.remote_ids(job, cluster), f"job {job} to have a remote id")
        return ids[-1]

    def accounting(self, job: str, cluster: str = "alpha", limit_s: float = 60) -> dict[str, str]:
        """Wait for a job's last accounting record and return its fields as qacct names them."""
        return self.until(lambda: self._records(job, cluster), f"qacct -j {job}", limit_s)[-1]

    def records(self, job: str, cluster: str = "alpha") -> list[dict[str, str]]:
        """Return all accounting records that a job has now, oldest first."""
        return self._records(job, cluster)

    def accounting_of_end(self, job: str, limit_s: float = 60, cluster: str = "alpha") -> dict[str, str]:
        """Wait for the record of a job's end, not of a rescheduling (failed 24, 25)."""
        ends = self.until(
            lambda: [one for one in self.records(job, cluster) if not is_rescheduled(one)],
            f"qacct -j {job} to tell an end",
            limit_s,
        )
        return ends[-1]

    def _records(self, job: str, cluster: str) -> list[dict[str, str]]:
        blocks = self.cell(cluster, "qacct", "-j", job, user="root").out.split("=" * 62)[1:]
        return [
            {parts[0]: parts[1].strip() if len(parts) > 1 else "" for parts in rows}
            for rows in ([line.split(None, 1) for line in block.splitlines() if line] for block in blocks)
        ]

    def until(self, look: Callable[[], T], what: str, limit_s: float = 60) -> T:
        """Wait until `look` returns a true value, and return this value.

        After `limit_s` seconds, fail with the last value.
        """
        began = looked = time.monotonic()
        while not (seen := look()):
            now = time.monotonic()
            assert now - began < limit_s, f"waited {limit_s:g} s for {what}; last: {seen!r}"
            time.sleep(pause_s(now - began, now - looked))
            looked = time.monotonic()
        return seen

    def until_none(self, look: Callable[[], list[T]], what: str, limit_s: float = 60) -> None:
        """Wait until `look` returns an empty list; fail with the last list."""
        seen: list[T] = []

        def is_nothing() -> bool:
            seen[:] = look()
            return not seen

        try:
            self.until(is_nothing, what, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen!r}") from None

    def until_gone(self, job: str, cluster: str = "alpha", limit_s: float = 60) -> None:
        self.until(
            lambda: not [key for key in self.states(cluster) if key.split(".")[0] == job],
            f"job {job} to leave {cluster}",
            limit_s,
        )

    def logs(self) -> str:
        ours = "tail -n 60 /var/lib/gridbridge/*.log /var/log/gridbridge-sensor.log 2>&1"
        theirs = [
            subprocess.run([LAB, "logs", host], capture_output=True, check=False).stdout[-2000:]
            for host in ("alpha-master", "beta-master", "beta-n1", "beta-n2", "gamma-master")
        ]
        jobs = (
            self.cell("alpha", "qstat", "-u", "*").out
            + self.cell("beta", "qstat", "-u", "*").out
            + self.on("gamma-master", "sh", "-c", "oarnodes -s; oarstat 2>&1").out
        )
        both = "".join(self.on(host, "sh", "-c", ours).out for host in MASTERS)
        return jobs + both + b"".join(theirs).decode("utf-8", "replace")

    def switch(self, option: str, *queues: str) -> None:
        """Disable (-d) or enable (-e) queues of alpha, by default those that reach clusters by ssh."""
        self.cell("alpha", "qmod", option, *(queues or BY_SSH), user="root")

    def switch_back(self, option: str) -> None:
        self.cell("beta", "qmod", option, BACK, user="root")

    def clear(self) -> None:
        """Delete every job, so that a failed test spoils no later one, and wake gamma's nodes."""
        for cluster in ("alpha", "beta"):
            self.cell(cluster, "qdel", "-u", "*", user="root")
        self.on("gamma-master", "oardel", "--sql", OAR_ALIVE)
        with suppress(subprocess.CalledProcessError):
            self.lab("up", "gamma")
        with suppress(AssertionError):  # the next test finds out
            self.until(lambda: not self.states() and not self.states("beta"), "no job", 60)

    def require_ready(self) -> None:
        """Wait until the transfer queue to beta is open, which shows that all services work."""
        self.until(self.is_open, "transfer-beta to be open", 60)

    def is_open(self, cluster: str = "alpha", queue: str = "") -> bool:
        """Say whether a transfer queue of a cluster is open, by default the queue between alpha and beta."""
        return self.queue_letters(queue or f"transfer-{OTHER[cluster]}", cluster) == ""

    def queue_letters(self, queue: str, cluster: str = "alpha") -> str:
        """Return the state letters of a queue with one instance; `?` for a missing queue."""
        out = self.cell(cluster, "qstat", "-f", "-q", queue, user="root").out
        rows = [line.split() for line in out.splitlines() if line.startswith(f"{queue}@")]
        return "".join(rows[0][5:]) if rows else "?"

    def check(self, host: str = "alpha-master", user: str = "root") -> dict[str, dict[str, Any]]:
        """Return the items of `gridbridge check` by name."""
        items = json.loads(self.on(host, "gridbridge", "check", "--json", user=user).out)["items"]
        return {item["name"]: item for item in items}

    def decisions(self) -> list[dict[str, Any]]:
        """Return the decisions in the service's journal, as `gridbridge replay` lists them."""
        listed: list[dict[str, Any]] = json.loads(self.sh("alpha-master", "gridbridge replay --json"))
        return listed

    def replay(self, decision: int) -> Done:
        return self.on("alpha-master", "gridbridge", "replay", str(decision))


def pause_s(waited_s: float, look_s: float) -> float:
    """Return the pause before the next poll, from the time waited and the duration of a poll."""
    own, usual = SHARE * look_s, PAUSE_S + BACK_OFF * waited_s
    return max(min(SLOW_PAUSE_S, own), min(LONGEST_PAUSE_S, usual))


@contextmanager
def between(act: Callable[[T], object], begin: T, end: T) -> Iterator[None]:
    """Call `act(begin)` before a block, and `act(end)` after it, whatever happens in the block."""
    act(begin)
    try:
        yield
    finally:
        act(end)


def is_rescheduled(record: dict[str, str]) -> bool:
    """Say whether an accounting record is of a task that runs again (sge_status(5))."""
    return record["failed"].split()[0] in ("19", "24", "25")


def _key(row: list[str]) -> str:
    """Return ID or ID.TASK of a row of `qstat -g d`."""
    return f"{row[0]}.{row[-1]}" if row[-1].isdigit() and len(row) in (9, 10) and _is_task(row) else row[0]


def _is_task(row: list[str]) -> bool:
    return row[-2].isdigit()  # slots stand before the task, a queue or a time otherwise

"""A transfer's local and remote job, and the processes of each, for tests that control or kill jobs."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from gridbridge.model import names_offered_by_cluster
from tests.lab.grid import Grid, between, is_rescheduled

ACTIVE = "/var/spool/gridengine/alpha/execd/alpha-master/active_jobs"
GONE_AT_HOME_S = 20.0  # after qdel, whatever the other cluster does
GONE_AWAY_S = 30.0  # after the other cluster can be reached
QUIET = ("-o", "/dev/null", "-j", "y")
SLEEP = "sleep 300\n"
TELLS = "echo start $HOSTNAME >>$JOB_NAME.ran; sleep 1; echo end >>$JOB_NAME.ran\n"
LOGGED = r"name=gb\.alpha\.{job}\.{task}\.\d+ text='submitted to beta as (\d+), "


def remote_of(grid: Grid, job: str, task: int = 0) -> str:
    """Wait until a local task has a remote id, and return the remote id."""
    pattern = LOGGED.format(job=job, task=task)

    def last_id() -> str:
        log = grid.sh("alpha-master", "cat /var/lib/gridbridge/poller.log")
        return (re.findall(pattern, log) or [""])[-1]

    return grid.until(last_id, f"{job}.{task} to have a remote id")


def wait_for(grid: Grid, job: str, letters: str, cluster: str = "beta", limit_s: float = 30) -> None:
    """Wait until a job has exactly these state letters; without letters, until the job is not listed."""

    def matches() -> bool:
        nonlocal last
        last = grid.states(cluster).get(job, "")
        return set(last) == set(letters)

    last = "?"
    try:
        grid.until(matches, f"{job} at {cluster} to be {letters!r}", limit_s)
    except AssertionError as error:
        raise AssertionError(f"{error}; it is {last!r}") from error


def until_reported(grid: Grid, job: str, cluster: str = "alpha") -> None:
    """Wait until the execd of a running job has reported the job's usage to the qmaster.

    Grid Engine may not kill a job that is rescheduled before this first report. Until then qstat shows
    an empty usage: cpu=00:00:00, maxvmem=N/A.
    """
    grid.until(
        lambda: re.search(r"maxvmem=\d", grid.cell(cluster, "qstat", "-j", job, user="root").out),
        f"{job} to be reported by its execd",
    )


def until_all_gone(grid: Grid, remotes: Iterable[str]) -> None:
    """Wait until beta lists none of these jobs. Their end messages arrive earlier."""
    for remote in remotes:
        wait_for(grid, remote, "")


def starter(grid: Grid, job: str, task: int = 1) -> str:
    file = f"{ACTIVE}/{job}.{task}/job_pid"
    return grid.until(lambda: grid.on("alpha-master", "cat", file).out, file).strip()


def child(grid: Grid, parent: str, name: str) -> str:
    def find() -> str:
        rows = [line.split() for line in grid.on("alpha-master", "ps", "-eo", "pid,ppid,comm").out.splitlines()]
        family = {parent}
        for _ in range(3):
            family |= {pid for pid, ppid, *_ in rows if ppid in family}
        return next((pid for pid, _, comm, *_ in rows if pid in family and comm == name), "")

    return grid.until(find, f"{parent} to have a child {name}")


def kill(grid: Grid, *pids: str, signal: str = "KILL") -> None:
    """Send a signal to processes of alpha-master; a negative pid is a process group."""
    grid.on("alpha-master", "kill", f"-{signal}", "--", *pids)


class RanTwice(Exception):
    """A job ran twice. The Makefile does not retry a test that fails with this error."""


def once(runs: list[str]) -> list[str]:
    if len(set(runs)) < len(runs):
        raise RanTwice(runs)
    return runs


def starts(told: list[str]) -> list[str]:
    """Return the hosts on which the script TELLS has started: none or one host."""
    found = [line.removeprefix("start ") for line in told if line.startswith("start ")]
    if len(found) > 1:
        raise RanTwice(told)
    return found


def lines(grid: Grid, name: str) -> list[str]:
    return grid.on("alpha-master", "cat", name, user="alice").out.splitlines()


def ends(grid: Grid, job: str, count: int = 1) -> list[dict[str, str]]:
    """Return the accounting records of a job's ends, without reschedulings; empty if fewer than `count`."""
    found = [one for one in grid.records(job) if not is_rescheduled(one)]
    return found if len(found) >= count else []


def statuses(records: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(one["failed"].split()[0], one["exit_status"].split()[0]) for one in records}


def reason(grid: Grid, job: str) -> str:
    grid.until(lambda: "E" in grid.states().get(job, ""), f"{job} to be in error state", 90)
    out = grid.cell("alpha", "qstat", "-j", job).out
    return "\n".join(line for line in out.splitlines() if "error reason" in line)


def why(grid: Grid, job: str, user: str = "alice") -> str:
    return grid.on("alpha-master", "gridbridge", "why", job, user=user).out


def global_setting(grid: Grid, master: str, name: str, value: str) -> AbstractContextManager[None]:
    change = "cd /tmp && qconf -sconf global | sed 's/^{0} .*/{0} {1}/' >global && qconf -Mconf global"
    before = grid.sh(master, f"qconf -sconf global | sed -n 's/^{name} *//p'").strip()
    return between(lambda text: grid.sh(master, change.format(name, text)), value, before)


def complex_at(grid: Grid, name: str, master: str, queue: str) -> AbstractContextManager[None]:
    """Give a cluster a resource, and one of its queues nine units of the resource."""
    value = f"queue complex_values {name}=9 {queue}"
    add = f"(qconf -sc; echo {name} {name} INT '<=' YES NO 0 0) >/tmp/c && qconf -Mc /tmp/c && qconf -aattr {value}"
    remove = f"qconf -dattr {value}; qconf -sc | grep -v '^{name} ' >/tmp/c; qconf -Mc /tmp/c"
    return between(lambda script: grid.sh(master, script), add, remove)


def qmaster(grid: Grid, away: str, back: str, host: str = "beta-master") -> AbstractContextManager[None]:
    """Freeze or stop a qmaster until the block ends.

    `away` and `back` are `freeze` and `thaw`, or `stop` and `start`.
    """
    return between(lambda verb: grid.on(host, "labctl", verb, "qmaster"), away, back)


def cut(grid: Grid, cluster: str) -> AbstractContextManager[None]:
    """Cut the network to a cluster's master until the block ends."""
    return between(lambda verb: grid.lab("net", f"{cluster}-master", verb), "cut", "heal")


def reachable(grid: Grid) -> None:
    """Wait until beta runs jobs. Its execds reconnect to a new qmaster only after about 30 s."""
    options = ("-N", "probe", "-o", "/dev/null", "-j", "y")
    grid.accounting(grid.submit(*options, user="bob", cluster="beta", script="exit 0\n"), "beta")


def full_beta(grid: Grid) -> AbstractContextManager[None]:
    return full(grid, "beta")


@contextmanager
def full(grid: Grid, cluster: str) -> Iterator[None]:
    """Fill the own slots of alpha or beta with jobs of bob until the block ends."""
    options = ("-N", "fill", "-t", "1-4", "-q", "all.q", *QUIET)
    job = grid.submit(*options, user="bob", cluster=cluster, script="sleep 600\n")
    tasks = [f"{job}.{task}" for task in range(1, 5)]
    try:
        grid.until(lambda: [grid.states(cluster).get(task) for task in tasks] == ["r"] * 4, f"{cluster} to be full")
        yield
    finally:
        grid.cell(cluster, "qdel", job, user="bob")
        grid.until_gone(job, cluster)


def short_notify(grid: Grid, seconds: int) -> AbstractContextManager[None]:
    def change(notify: str) -> None:
        for cluster, queue in (("alpha", "transfer-beta"), ("beta", "all.q")):
            assert grid.cell(cluster, "qconf", "-mattr", "queue", "notify", notify, queue, user="root").status == 0

    return between(change, f"0:0:{seconds}", "00:01:00")


class Since:
    def __init__(self) -> None:
        self._began = time.monotonic()

    def left(self, limit_s: float) -> float:
        return max(0.1, limit_s - (time.monotonic() - self._began))


def closed(grid: Grid, cluster: str, *queues: str) -> AbstractContextManager[None]:
    """Let no new job start in queues of a cluster, by default on its own hosts; running jobs continue."""
    return between(lambda way: grid.cell(cluster, "qmod", way, *(queues or ("all.q",)), user="root"), "-d", "-e")


def together(grid: Grid, names: list[str]) -> list[str]:
    with closed(grid, "alpha"):
        jobs = [grid.submit("-N", name, *QUIET, script=TELLS) for name in names]
        for job in jobs:
            wait_for(grid, grid.remote_id(job), "qw")
    return jobs


def is_known(grid: Grid, kind: str, word: str, cluster: str = "beta") -> bool:
    """Say whether the service has published a cluster's resource or project for starters."""
    path = f"/var/lib/gridbridge/published/vocabularies/{cluster}"
    told = grid.on("alpha-master", "cat", path).out
    return word in getattr(names_offered_by_cluster.decode_offered_names(told.encode()), kind)

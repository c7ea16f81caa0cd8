"""Users see beta's accounting at home; of delta, whose file is not shared, they see the reported usage."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.away import QUIET, kill, starter, wait_for
from tests.lab.configured import configured
from tests.lab.grid import ROOT, Done, Grid

pytestmark = pytest.mark.lab

FILE = "/var/lib/gridengine/beta/common/accounting"
READINGS = "/var/lib/gridbridge/published/readings.json"
LOG = "/var/lib/gridbridge/poller.log"
BURN = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3\n"


def qacct(grid: Grid, *words: str, user: str = "alice") -> Done:
    return grid.on("alpha-master", "qacct_remote", *words, user=user)


def account(grid: Grid, job: str, user: str = "alice") -> Mapping[str, Any]:
    """Wait until the service has both accounting records, and return the output of qacct_remote.

    The end message of a job at beta reports the usage first, and beta's own accounting follows.
    """

    def both() -> Mapping[str, Any]:
        done = qacct(grid, "-j", job, "--json", user=user)
        told: Mapping[str, Any] = json.loads(done.out) if done.status == 0 else {}
        is_whole = told and all(told["tasks"][0][side] for side in ("local", "remote"))
        remote = told["tasks"][0]["remote"] if is_whole else ()
        is_read = all(one["source"] == "accounting" for one in remote)
        kept = f"/var/lib/gridbridge/published/accounting/{int(job) // 1000}/{job}.json"
        is_kept = grid.on("alpha-master", "test", "-e", kept).status == 0
        return told if is_whole and is_read and is_kept else {}

    return grid.until(both, f"qacct_remote -j {job}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The ids of jobs at beta (one before a log rotation, two after), delta and gamma."""

    first: str
    second: str
    count: str
    far: str
    oar: str


@pytest.fixture(scope="module")
def sent(grid: Grid, all_open: None) -> Sent:
    """Rotate beta's accounting file after the first job's record, then send the other jobs."""
    far = grid.submit("-q", "transfer-delta", *QUIET, script=BURN)
    oar = grid.submit("-q", "transfer-gamma", *QUIET, script=BURN)
    first = grid.transfer(*QUIET, script=BURN)
    grid.accounting(grid.remote_id(first), "beta")
    grid.sh("alpha-master", f"mv {FILE} {FILE}.1")
    return Sent(
        first=first,
        second=grid.transfer(*QUIET, script=BURN),
        count=grid.transfer(*QUIET, "-N", "count", script=BURN),
        far=far,
        oar=oar,
    )


def test_a_rotation_between_two_jobs_loses_neither(grid: Grid, sent: Sent) -> None:
    jobs = (sent.first, sent.second)

    ids = [account(grid, job)["tasks"][0]["remote"][0]["job_id"] for job in jobs]

    assert ids == [int(grid.remote_id(job)) for job in jobs]


def test_a_jobs_account_has_both_sides_and_tells_the_same_as_beta(grid: Grid, sent: Sent) -> None:
    told = account(grid, sent.count, user="bob")
    theirs = grid.accounting(grid.remote_id(sent.count), "beta")

    (task,) = told["tasks"]
    (remote,) = task["remote"]
    assert (remote["source"], remote["cluster"], remote["owner"]) == ("accounting", "beta", "alice")
    assert (str(remote["job_id"]), remote["host"]) == (theirs["jobnumber"], theirs["hostname"])
    assert remote["user_s"] == pytest.approx(float(theirs["ru_utime"].rstrip("s")), abs=0.001)
    assert [remote["exit_status"], task["local"][0]["exit_status"]] == [3, 3]
    assert told["notes"] == []


def test_an_end_without_a_message_is_taken_from_the_accounting_file(grid: Grid) -> None:
    """Without the shared spool accounting is the only report; qacct is not called."""
    calls = "/tmp/qacct-calls"
    fake = f'#!/bin/sh\\necho >>{calls}\\nexec /usr/lib/gridengine/qacct \\"$@\\"\\n'
    grid.sh(
        "alpha-master",
        f"mkdir -p /opt/counting && ln -sf /usr/lib/gridengine/* /opt/counting/ && "
        f'rm -f /opt/counting/qacct {calls} && printf "{fake}" >/opt/counting/qacct && '
        f"chmod 755 /opt/counting/qacct",
    )
    sed = '/^.cluster.beta.$/a binaries = "/opt/counting"\n/^spool_shared = true/d'
    try:
        with configured(grid, sed):
            job = grid.transfer(*QUIET, script=BURN)
            end = grid.accounting_of_end(job, 90)
            calls_of_qacct = grid.on("alpha-master", "cat", calls).out
    finally:
        grid.sh("alpha-master", f"rm -rf /opt/counting {calls}")

    assert (end["exit_status"].split()[0], calls_of_qacct) == ("3", "")


@pytest.mark.parametrize("cluster", ["delta", "gamma"])
def test_where_no_accounting_is_seen_the_end_tells_the_usage(grid: Grid, sent: Sent, cluster: str) -> None:
    """OAR has no accounting, so a job's first process reports its usage."""
    told = account(grid, {"delta": sent.far, "gamma": sent.oar}[cluster])

    (remote,) = told["tasks"][0]["remote"]
    (local,) = told["tasks"][0]["local"]
    assert (remote["cluster"], remote["owner"], remote["exit_status"]) == (cluster, "alice", 3)
    assert local["user_s"] == pytest.approx(remote["user_s"], abs=0.001)
    assert remote["user_s"] > 0.1
    assert remote["system_s"] is not None
    assert remote["wallclock_s"] is not None
    assert (remote["max_rss_kb"] is None) == (cluster == "gamma")
    assert told["notes"] == [
        f"{cluster}'s accounting is not readable here ([cluster.{cluster}] accounting): only end messages are shown"
    ]


def test_totals_and_unknown_jobs_are_told(grid: Grid, sent: Sent) -> None:
    account(grid, sent.count)

    totals = json.loads(qacct(grid, "-o", "alice", "-d", "1", "--json", user="bob").out)["totals"]
    unknown = qacct(grid, "-j", "987654")

    assert next(one for one in totals if one["cluster"] == "beta")["jobs"] >= 1
    assert (unknown.status, unknown.out) == (1, "")
    assert unknown.err == "qacct_remote: job 987654: no accounting record, at home or away\n"


def test_an_epilog_accounts_for_the_remote_job_here(grid: Grid) -> None:
    """A user's variables in the job's environment do not reach the epilog."""
    evil = "PATH=/home/alice,PYTHONPATH=/home/alice,SGE_JOB_SPOOL_DIR=/home/alice"
    noted = usage_log(grid)
    to_beta = (*QUIET, "-q", "transfer-beta")
    job = grid.transfer(*to_beta, "-v", evil, script=BURN)
    array = grid.transfer(*to_beta, "-t", "3", script=BURN)
    deleted = grid.transfer(*to_beta, script="sleep 300\n")
    here = grid.accounting_of_end(job)
    task = grid.accounting_of_end(array)
    there = grid.accounting(grid.remote_id(job), "beta")
    remote = grid.remote_id(deleted)
    wait_for(grid, remote, "r")
    kill(grid, starter(grid, deleted))
    killed = grid.accounting_of_end(deleted)

    times = [float(one["ru_utime"].rstrip("s")) for one in (here, there)]
    assert times[0] == pytest.approx(times[1], abs=0.1)
    assert times[0] > 0.1
    assert float(task["ru_utime"].rstrip("s")) > 0.1
    assert here["exit_status"].split()[0] == "3"
    assert killed["exit_status"].split()[0] == "137"
    wait_for(grid, remote, "")
    told = grid.logged(f"name=gb.alpha.{deleted}.0.1 text=")
    assert "deleted here" in told, "the owner's epilog runs, too"
    assert usage_log(grid) == noted


def usage_log(grid: Grid) -> str:
    """Return the epilogs' log lines so far; other tests remove the jobs' folders."""
    return grid.on("alpha-master", "cat", "/var/log/gridbridge-usage.log").out


def test_the_benchmark_runs_on_a_small_file(tmp_path: Path) -> None:
    words = ("--records", "1000", "--json", str(tmp_path / "figures"))
    argv = (sys.executable, "-m", "bench.accounting", *words)

    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)

    result = json.loads((tmp_path / "figures").read_text())
    assert result["records"] == 1000
    assert f"{result['times_less']:.1f} times" in done.stdout

"""The poller: one query an interval, job ends over any channel, and a pending limit that holds."""

import json
import time
from contextlib import AbstractContextManager

import pytest

from tests.lab.away import full, kill, qmaster
from tests.lab.configured import POLLER, SERVICE, TOML, configured, pollers
from tests.lab.grid import Grid, between

pytestmark = pytest.mark.lab

PYTHON = "/opt/gridbridge/venv/bin/python3"
PROGRAM = (PYTHON, "-I", "-c", "from gridbridge.transfer.poller.program import main; main()")
SENSOR = "[g]ridbridge.transfer.starter.sensor"
HEARD = """
import os, socket, subprocess, sys
end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
end.bind("\\0gridbridge-test")
end.settimeout(30)
manager = {"NOTIFY_SOCKET": "@gridbridge-test", "WATCHDOG_USEC": "60000000"}
poller = subprocess.Popen(sys.argv[1:], env={**os.environ, **manager})
told = [end.recv(4096).decode().split() for _ in range(3)]
poller.kill()
print(*(word for words in told for word in words))
"""
HOMELESS = f"""
mv {TOML} {TOML}.kept
cat >{TOML} <<'END'
[site]
cluster = "grid"
state = "sqlite:////var/lib/gridbridge/grid.db"
[cluster.alpha]
qmaster_port = 6444
execd_port = 6445
[cluster.beta]
qmaster_port = 6454
execd_port = 6455
END
pkill -TERM -u gridbridge -f {POLLER}
"""
AGAIN = f"""
mv {TOML}.kept {TOML}; rm -f /var/lib/gridbridge/grid.db*
pkill -TERM -u gridbridge -f {POLLER}
"""
RUSH = 12  # tasks: more than the limit lets cross before the queue opens again


@pytest.mark.parametrize("push", ["qevent", "none"])
def test_an_end_is_noticed_where_the_spool_is_not_shared(grid: Grid, push: str) -> None:
    """A qevent reports the end at once, otherwise a poll does; the status comes from beta's accounting."""
    with configured(grid, f's/^spool_shared = true/spool_shared = false\\npush = "{push}"/'):
        job = grid.transfer("-N", "far", script="exit 5\n")
        killed = grid.transfer("-N", "shot", script="kill -9 $$\n")
        grid.remote_id(job)
        began = time.monotonic()
        end, shot = grid.accounting_of_end(job), grid.accounting_of_end(killed)
        took_s = time.monotonic() - began

    assert (end["exit_status"], end["failed"]) == ("5", "0")
    assert (shot["exit_status"].split()[0], shot["failed"].split()[0]) == ("137", "100")
    log = grid.sh("alpha-master", "cat /var/lib/gridbridge/poller.log")
    assert (
        f"gb.alpha.{job}.0.1 text=\"looking up the job's end in the remote accounting: beta pushed the job's end\""
        in log
    ) == (push == "qevent")
    assert push == "none" or took_s < 15


@pytest.mark.long
def test_a_queue_closes_at_its_pending_limit_and_opens_again(grid: Grid) -> None:
    """The job load adjustment damps bursts: at most 3 jobs above the threshold of 5 wait at beta."""
    with threshold(grid, 5), full(grid, "beta"):
        job = grid.transfer("-N", "rush", "-t", f"1-{RUSH}", script="sleep 1\n")
        grid.until(lambda: _waiting_at_beta(grid) >= 5, "five to wait at beta")
        grid.until(lambda: "a" in grid.queue_letters("transfer-beta"), "the queue to be closed", 30)
        waiting = [_waiting_at_beta(grid) for _ in range(30)]
        grid.cell("beta", "qdel", "-u", "bob", user="bob")

        def have_ended() -> bool:
            waiting.append(_waiting_at_beta(grid))
            return len(grid.records(job)) == RUSH

        grid.until(have_ended, "all to end", 150)

    assert max(waiting) <= 5 + 3, f"overshoot of {max(waiting) - 5}"


@pytest.mark.long
def test_a_queue_opens_again_though_the_qmaster_never_heard_when_it_closed(grid: Grid) -> None:
    """Execd repeats only a changed value, until the qmaster has it. So the sensor omits no value."""
    grid.until(grid.is_open, "the queue to be open")
    with qmaster(grid, "freeze", "thaw", "alpha-master"):
        grid.sh("alpha-master", "gridbridge drain beta --reason 'an hour'")
        until_reported(grid, "gb_beta_up=0")
        grid.sh("alpha-master", "gridbridge undrain beta")
        until_reported(grid, "gb_beta_up=1")

    grid.until(grid.is_open, "the queue to be open again")


def until_reported(grid: Grid, value: str) -> None:
    """Wait until the sensor has reported a published value to execd twice."""
    grid.until(lambda: value in _load(grid), f"{value} to be published")
    before = _sent(grid)
    grid.until(lambda: _sent(grid) > before + 1, f"{value} to be reported")


def _sent(grid: Grid) -> int:
    """Return the number of values that the sensor has written since its start."""
    counters = f"cat /proc/$(pgrep -of '{SENSOR}')/io"
    return int(grid.sh("alpha-master", counters).partition("syscw: ")[2].split()[0])


@pytest.mark.long
def test_a_poller_that_is_stopped_is_told_and_replaced(grid: Grid) -> None:
    """Its queues close, and transferred jobs come home; `stale_s` sets the delay."""
    with configured(grid, "/^.poller./a stale_s = 10"):
        grid.until(lambda: _load(grid)[0].endswith(" 10"), "the sensor to be told")
        job = grid.transfer("-N", "away", script="sleep 5; exit 3\n")
        grid.remote_id(job)
        before = pollers(grid)
        kill(grid, *before, signal="STOP")
        status = ("gridbridge", "status")
        grid.until(lambda: "silent for" in grid.on("alpha-master", *status).out, "status to tell it")
        check = grid.on("alpha-master", "gridbridge", "check").out
        grid.until(lambda: "a" in grid.queue_letters("transfer-beta"), "the queue to be closed")
        after = grid.until(lambda: set(pollers(grid)) - set(before), "another poller")
        grid.require_ready()

        assert grid.accounting_of_end(job)["exit_status"] == "3"
    assert not after & set(before)
    assert ["broken", "poller:"] in [line.split()[:2] for line in check.splitlines()], check
    log = grid.sh("alpha-master", "cat /var/log/gridbridge-sensor.log")
    assert f"poller {before[0]} gave no sign of life for 20 s: killed" in log


def test_the_poller_tells_systemd_that_it_lives(grid: Grid) -> None:
    """A listener stands for systemd and starts the poller; the sensor starts no poller."""
    grid.sh("alpha-master", f"pkill -STOP -f {SENSOR}")
    try:
        kill(grid, *pollers(grid))
        grid.until(lambda: not pollers(grid), "no poller")
        become = ("setpriv", "--reuid", "gridbridge", "--regid", "gridbridge", "--init-groups")
        told = grid.on("alpha-master", *become, PYTHON, "-c", HEARD, *PROGRAM)
    finally:
        grid.sh("alpha-master", f"pkill -CONT -f {SENSOR}")
        grid.require_ready()

    assert told.out.split() == [
        *("EXTEND_TIMEOUT_USEC=600000000", "WATCHDOG=1", "WATCHDOG_USEC=600000000"),
        *("READY=1", "WATCHDOG=1", "WATCHDOG_USEC=60000000"),
        *("READY=1", "WATCHDOG=1", "WATCHDOG_USEC=60000000"),
    ], told


def threshold(grid: Grid, limit: int) -> AbstractContextManager[None]:
    change = "qconf -rattr queue load_thresholds gb_beta_up=false,gb_beta_pending={} transfer-beta"
    return between(lambda pending: grid.sh("alpha-master", change.format(pending)), limit, 250)


def _load(grid: Grid) -> list[str]:
    return grid.sh("alpha-master", "cat /var/lib/gridbridge/published/load").splitlines()


def _waiting_at_beta(grid: Grid) -> int:
    return sum("qw" in state for state in grid.states("beta").values())


@pytest.mark.long
def test_a_site_without_a_cluster_of_its_own_asks_all_and_says_so(grid: Grid) -> None:
    """Such a site has no transfer queues, and each command says so in one line."""
    host = "beta-master"
    why = "a transfer queue needs a Grid Engine home, and there is no [cluster.grid]"
    try:
        grid.sh(host, HOMELESS)
        grid.until(lambda: _served(grid, host) == "grid", "the site's own service", 60)
        grid.until(lambda: len(_asked(grid, host)) == 2, "both clusters to be asked", 60)
        checked, asked = grid.check(host), _asked(grid, host)
        status = grid.on(host, "gridbridge", "status")
        queue = grid.on(host, "gridbridge", "setup", "transfer", "alpha")
    finally:
        grid.sh(host, AGAIN)
        grid.until(lambda: _served(grid, host) == "beta", "beta's service again", 60)

    assert asked == {"alpha": True, "beta": True}
    assert "no transfer queue\n" in status.out
    assert (queue.status, queue.err) == (2, f"gridbridge: {TOML}: {why}\n")
    assert checked[f"file {TOML}: transfer queues"]["found"] == f"none: {why}"
    assert {name: each["found"] for name, each in checked.items() if each["state"] != "ok"} == {}


def _served(grid: Grid, host: str) -> str:
    """Return the site of the service that published last."""
    told = grid.sh(host, f"cat {SERVICE}")
    return str(json.loads(told)["cluster"])


def _asked(grid: Grid, host: str) -> dict[str, bool]:
    told = json.loads(grid.on(host, "gridbridge", "status", "--json").out)
    return {each["cluster"]: each["answers"] for each in told["clusters"]}

"""The running service applies a changed gridbridge.toml without disturbing unchanged parts."""

import json
import re
from collections.abc import Iterator

import pytest

from tests.lab.away import kill
from tests.lab.configured import HOST, TOML, configured, edit, is_in_force, pollers, reload
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

OLDER = "the service uses an older gridbridge.toml"
ITEM = "poller: gridbridge.toml"
LOG = "/var/lib/gridbridge/poller.log"
LOAD = "/var/lib/gridbridge/published/load"
WATCH = f"while :; do grep -m 1 ^gb_beta_up= {LOAD} || echo none; sleep 0.05; done"
PYTHON = "/opt/gridbridge/venv/bin/python3"
PROGRAM = (PYTHON, "-I", "-c", "from gridbridge.transfer.poller.program import main; main()")
SETUP = "gridbridge setup transfer delta --slots 50 --pending-limit 60"


@pytest.fixture
def watched(grid: Grid) -> Iterator[None]:
    pid = grid.sh(HOST, f"({WATCH}) </dev/null >/tmp/values 2>&1 & echo $!").strip()
    yield
    grid.sh(HOST, f"kill {pid}")
    assert set(grid.sh(HOST, "cat /tmp/values").split()) == {"gb_beta_up=1"}


@pytest.fixture
def without_delta(grid: Grid) -> Iterator[None]:
    grid.sh(HOST, f"cp -p {TOML} {TOML}.kept && gridbridge setup transfer delta --remove --apply")
    yield
    grid.sh(HOST, f"mv {TOML}.kept {TOML} && {SETUP} --apply")
    grid.sh(HOST, "qconf -rattr queue seq_no 200 transfer-delta; qmod -d transfer-delta")
    reload(grid)


def since(grid: Grid, before: str) -> str:
    return grid.sh(HOST, f"cat {LOG}").removeprefix(before)


def checked(grid: Grid) -> dict[str, str]:
    """Return the check's problems by item, except for queues that the tests have disabled."""
    items = json.loads(grid.on(HOST, "gridbridge", "check", "--json").out)["items"]
    wrong = {each["name"]: each["found"] for each in items if each["state"] not in ("ok", "note")}
    return {name: found for name, found in wrong.items() if "disabled by hand" not in found}


def letters(grid: Grid, queue: str) -> str:
    out = grid.cell("alpha", "qstat", "-f", "-q", queue, user="root").out
    rows = [line.split() for line in out.splitlines() if line.startswith(f"{queue}@")]
    return "?" if not rows else "".join(rows[0][5:])


def test_a_second_queue_opens_without_a_restart_of_the_poller(grid: Grid, watched: None, without_delta: None) -> None:
    """`gridbridge setup` is enough; the first queue stays open all the while."""
    del watched, without_delta
    pids = pollers(grid)
    grid.until(lambda: is_in_force(grid), "the file without the queue to be in force", 10)
    before = grid.sh(HOST, f"cat {LOG}")
    grid.sh(HOST, f"{SETUP} --apply")
    grid.until(lambda: letters(grid, "transfer-delta") == "", "transfer-delta to be open", 60)
    job = grid.submit("-q", "transfer-delta", "-o", "/dev/null", "-j", "y", script="exit 7\n")
    end = grid.accounting_of_end(job, 90)
    grid.until(lambda: not checked(grid), "the check to find all well", 60)

    assert (end["qname"], end["exit_status"].split()[0]) == ("transfer-delta", "7")
    assert pollers(grid) == pids
    told = re.findall(r"event=configured cluster=alpha queues=(\S+)", since(grid, before))
    assert "transfer-delta" in told[-1]


@pytest.mark.long
def test_a_job_in_a_queue_that_the_service_does_not_know_yet_waits(grid: Grid, without_delta: None) -> None:
    """A queue remade by hand opens by old load values. `gridbridge setup` itself waits for new ones."""
    del without_delta
    grid.until(lambda: is_in_force(grid), "the file without the queue to be in force", 10)
    pids = pollers(grid)
    kill(grid, *pids, signal="STOP")
    try:
        grid.sh(HOST, f"{SETUP} | grep -v site.awaited >/tmp/early && sh -e /tmp/early")
        grid.sh(HOST, "qconf -rattr queue load_thresholds NONE transfer-delta")
        job = grid.submit("-q", "transfer-delta", "-o", "/dev/null", "-j", "y", script="exit 7\n")
        early = f"/tmp/{job}.1.transfer-delta/.gridbridge/early"
        grid.until(lambda: grid.on(HOST, "test", "-e", early).status == 0, "its starter to wait")
    finally:
        kill(grid, *pids, signal="CONT")
    state = grid.states().get(job)
    end = grid.accounting_of_end(job, 90)

    assert state in ("t", "r")  # no error: it waits in its place
    assert (end["qname"], end["exit_status"].split()[0]) == ("transfer-delta", "7")
    assert len(grid.records(job)) == 1


def test_a_wrong_configuration_is_reported_and_the_old_one_stays_in_force(grid: Grid, watched: None) -> None:
    """The service detects the changed file without a signal, and reports each mistake once."""
    del watched
    before = grid.sh(HOST, f"cat {LOG}")
    wrong = r"s/^\[poller\]/&\ninterval_s = 1\nstales_s = 9/"
    grid.sh(HOST, f"cp -p {TOML} {TOML}.kept")
    try:
        edit(grid, wrong)
        grid.until(lambda: "misconfigured" in since(grid, before), "the log to tell it", 20)
        found = grid.until(lambda: checked(grid), "the check to tell it")
        status = grid.on(HOST, "gridbridge", "status").out.splitlines()[0]
        job = grid.transfer("-o", "/dev/null", "-j", "y", script="exit 5\n")
        end = grid.accounting_of_end(job)
    finally:
        grid.sh(HOST, f"mv {TOML}.kept {TOML}")
    grid.until(lambda: not checked(grid), "the check to find all well", 60)

    assert end["exit_status"].split()[0] == "5"
    assert found[ITEM] == OLDER
    assert {f"file {TOML}"} == found.keys() - {ITEM}
    assert status.startswith(f"{OLDER}, because it refuses the new file: {TOML}: [poller] ")
    told = re.findall(r"event=misconfigured .*\[poller\] (\w+)", since(grid, before))
    assert sorted(told) == ["interval_s", "stales_s"]


@pytest.mark.long
def test_a_service_that_starts_with_a_wrong_configuration_uses_the_last_good_one(grid: Grid) -> None:
    """The service brings jobs home, reports the mistake, and later reads the corrected file.

    A program of root does not trust the service's copy, and ends with status 2.
    """
    before, first = since(grid, ""), pollers(grid)
    grid.sh(HOST, f"cp -p {TOML} {TOML}.kept")
    try:
        edit(grid, r"s/^\[poller\]/&\ninterval_s = 1/")
        kill(grid, *first, signal="KILL")
        alone = grid.on(HOST, *PROGRAM)
        job = grid.transfer("-o", "/dev/null", "-j", "y", script="exit 6\n")
        end = grid.accounting_of_end(job, 90)
        found = grid.until(lambda: checked(grid).get(ITEM), "the check to tell it")
        status = grid.on(HOST, "gridbridge", "status").out.splitlines()[0]
        why = grid.on(HOST, "gridbridge", "why", job).out.splitlines()[0]
    finally:
        grid.sh(HOST, f"mv {TOML}.kept {TOML}")
    grid.until(lambda: not checked(grid), "the check to find all well", 60)

    assert (alone.status, alone.out) == (2, "")
    assert alone.err.startswith(f"gridbridge-poller: {TOML}: [poller] interval_s = 1: ")
    assert (end["exit_status"].split()[0], found) == ("6", OLDER)
    assert pollers(grid) != first
    assert status.startswith(f"{OLDER}, because it refuses the new file: {TOML}: [poller] interval_s = 1")
    assert why == status
    assert re.search(r"event=misconfigured .*\[poller\] interval_s", since(grid, before))


@pytest.mark.long
def test_a_change_that_needs_a_restart_is_refused_with_the_remedy(grid: Grid) -> None:
    with_another = r"s|^\[site\]|&\nstate = \"sqlite:////var/lib/gridbridge/other.db\"|"
    grid.sh(HOST, f"cp -p {TOML} {TOML}.kept")
    try:
        edit(grid, with_another)
        found = grid.until(lambda: checked(grid).get(ITEM), "the check to tell it")
        items = json.loads(grid.on(HOST, "gridbridge", "check", "--json").out)["items"]
        is_made = grid.on(HOST, "test", "-e", "/var/lib/gridbridge/other.db").status == 0
    finally:
        grid.sh(HOST, f"mv {TOML}.kept {TOML}")
    grid.until(lambda: not checked(grid), "the check to find all well", 60)

    assert found.startswith(f"{OLDER}; the service refuses the new file: {TOML}: [site] state = ")
    assert found.endswith("restart the poller when no transfer is open")
    assert [each["name"] for each in items] == [ITEM, "account gridbridge"]
    assert not is_made


@pytest.mark.long
def test_a_reload_closes_no_queue_and_ends_no_poller(grid: Grid, watched: None) -> None:
    """Other queues, limits, intervals or the log may change, but not how beta is reached."""
    del watched
    pids = pollers(grid)
    gamma = "/^.queue.transfer-gamma/,/^$/d"
    for sed in ("/^.poller./a interval_s = 6", '/^.site.$/a log_level = "debug"', gamma):
        with configured(grid, sed):
            assert pollers(grid) == pids

    assert pollers(grid) == pids

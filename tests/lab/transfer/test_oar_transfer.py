"""Jobs cross to gamma, an OAR server of another domain that is reached by ssh alone."""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.abreast import abreast as abreast
from tests.lab.away import is_known, reason, why
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, FAR, HOME, LONG_S, NODES, Gamma
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

RULES = Path(__file__).with_name("oar_mapping_rules.toml").read_text()
LIMIT_S = 8.0  # OAR tells an end 1.6 s after the last command; then it is asked by ssh
INTERVAL_S = 5.0  # conf/gridbridge.toml, [poller] interval_s
INTERVALS = 3
OARSTAT = "/usr/lib/oar/oarstat"  # what the one of /usr/bin runs, as OAR's own account
COUNTED = f"""
set -e
install -m 666 /dev/null /tmp/asked
cat >/tmp/new <<'END'
#!/bin/sh
echo "$OARDO_USER $(date +%s.%N)" >>/tmp/asked
exec {OARSTAT}.kept "$@"
END
chmod 755 /tmp/new
mv {OARSTAT} {OARSTAT}.kept
mv /tmp/new {OARSTAT}
"""
RULE = "die(qq([ADMISSION RULE] no 777 here\\n)) if $jobproperties =~ /777/;"


WIDE = """
qconf -sp smp | sed 's/^pe_name .*/pe_name wide/' >/tmp/wide
qconf -Ap /tmp/wide
qconf -aattr queue pe_list wide transfer-gamma
"""


@pytest.fixture(scope="module")
def wide(grid: Grid) -> Iterator[None]:
    """Add a parallel environment at home whose slots are on several nodes of gamma."""
    grid.cell("alpha", "sh", "-c", WIDE, user="root")
    yield
    remove = "qconf -dattr queue pe_list wide transfer-gamma; qconf -dp wide"
    grid.cell("alpha", "sh", "-c", remove, user="root")


@pytest.fixture(scope="module")
def gamma(grid: Grid, open_to_gamma: None, wide: None) -> Iterator[Gamma]:
    far = Gamma(grid)
    lines = RULES.strip().replace("\n", "\\n")
    with configured(grid, f"$ a \\\\n{lines}"):
        far.until_open()
        grid.until(  # one that another test switched off is back
            lambda: all(is_known(grid, "node", node, "gamma") for node in NODES), "gamma's nodes to be known", LONG_S
        )
        grid.sh(FAR, "rm -f go ran* ./*.[oe][0-9]*", user=ACCOUNT)
        yield far
    far.clear()


@pytest.fixture
def tidy(gamma: Gamma) -> Iterator[None]:
    """Require after each test that no job or file is left at gamma."""
    yield
    if gamma.left() or gamma.grid.states():
        gamma.until_clean()


def live(gamma: Gamma) -> set[int]:
    return {int(job["Job_Id"]) for job in gamma.jobs()}


@pytest.mark.usefixtures("abreast", "tidy")
def test_jobs_end_at_home_as_they_ended_there(gamma: Gamma) -> None:
    """Exit statuses, signals, arguments with blanks, variables, arrays and a walltime, all at once."""
    gamma.grid.sh(FAR, "rm -f ran.array", user=ACCOUNT)
    limited = gamma.submit("sleep 303\n", "-l", "h_rt=0:0:2")  # OAR looks every 30 s
    tells = 'echo "$JOB_ID $JOB_NAME $SGE_O_LOGNAME $1|$2|$FOO|$(id -un)|$PWD"; exit 3'
    gamma.grid.on(HOME, "sh", "-c", "cat >tells", user="alice", stdin=f"{tells}\n")
    with_status = gamma.submit("", "-v", "FOO=a b;$x'", "tells", "a  b", "c'd\"$HOME")
    by_signal = gamma.submit("kill -TERM $$\n")
    array = gamma.submit('echo "$SGE_TASK_ID" >>ran.array; exit $SGE_TASK_ID\n', "-t", "4-6:2")
    well = gamma.submit("[ $NSLOTS = 2 ]\n", "-pe", "smp", "2")
    hosts = "cut -d' ' -f1,2 $PE_HOSTFILE; echo $NHOSTS $NSLOTS; sort $OAR_NODEFILE\n"
    wide = gamma.submit(hosts, "-pe", "wide", "3")
    records = {job: gamma.grid.accounting(job) for job in (with_status, by_signal, well)}
    spread = gamma.grid.accounting(wide)
    gamma.grid.until_gone(array)
    told = gamma.read_at_home(f"away.o{with_status}")
    killed = gamma.grid.accounting(limited)

    assert ["3", "143", "0"] == [each["exit_status"].split()[0] for each in records.values()]
    assert {"4", "6"} == {each["exit_status"] for each in gamma.grid.records(array)}
    assert ["4", "6"] == sorted(gamma.read("ran.array").split())
    expected = f"{with_status} away alice a  b|c'd\"$HOME|a b;$x'|{ACCOUNT}|/home/{ACCOUNT}\n"
    assert expected == told
    assert "0" == spread["exit_status"], why(gamma.grid, wide)
    *rows, counts, one, other, third = gamma.read_at_home(f"away.o{wide}").splitlines()
    assert ["gamma-n1", "gamma-n2"] == [row.split()[0] for row in rows]
    assert {"1", "2"} == {row.split()[1] for row in rows}
    assert "2 3" == counts
    assert {"gamma-n1", "gamma-n2"} == {one, other, third}
    assert "137" == killed["exit_status"].split()[0]
    assert "gamma says WALLTIME" in why(gamma.grid, limited)


@pytest.mark.usefixtures("abreast", "tidy")
def test_a_job_is_suspended_resumed_and_deleted_there(gamma: Gamma) -> None:
    """Without cpusets OAR stops and continues the job's processes."""
    job = gamma.submit("sleep 301\n")
    number = gamma.number(job)
    gamma.until_state(number, "Running")
    gamma.grid.until(lambda: "S" in sleeper(gamma), "it to sleep")
    asked = gamma.grid.on(HOME, "qstat_remote", "-j", job, user="alice").out
    changed = gamma.grid.on(HOME, "qalter_remote", job, "-p", "-5", user="alice")
    gamma.grid.cell("alpha", "qmod", "-sj", job)
    gamma.grid.until(lambda: "T" in sleeper(gamma), "it to be stopped")
    gamma.grid.cell("alpha", "qmod", "-usj", job)
    gamma.grid.until(lambda: "S" in sleeper(gamma), "it to go on")
    gamma.grid.cell("alpha", "qdel", job)
    record = gamma.grid.accounting(job)

    assert "137" == record["exit_status"].split()[0]
    assert f"is at gamma as job {number}" in asked
    assert [] == [no for no in ("no answer", "not asked", "does not list") if no in asked]
    assert "gamma is of kind oar: use the commands of oar" in changed.out + changed.err


def sleeper(gamma: Gamma) -> str:
    """Return the state letter of the job's own process (ps(1), stat)."""
    asked = f"ps -o stat=,args= -u {ACCOUNT} | sed -n 's/ *sleep 301$//p'"
    return "".join(gamma.grid.sh(node, asked) for node in ("gamma-n1", "gamma-n2"))


@pytest.mark.usefixtures("abreast", "tidy")
def test_a_job_that_oar_refuses_is_in_error_at_home_with_the_reason(gamma: Gamma) -> None:
    """An admission rule, an unknown property, too large a request, or a missing mapping rule refuses."""
    add = ("sh", "-c", "cat >/tmp/rule; oaradmissionrules -n -r /tmp/rule; rm /tmp/rule")
    rule = gamma.grid.on(FAR, *add, stdin=RULE).out.split()[-1].strip("#")
    jobs: dict[str, str] = {}
    try:
        jobs |= {
            gamma.submit("true\n", "-l", "mem_free=777M"): "no 777 here",
            gamma.submit("true\n", "-l", "arch=lx-amd64"): "gamma has no resource nonesuch",
            gamma.submit("true\n", "-l", "mem_free=9G"): "not enough resources",
            gamma.submit("true\n", "-pe", "smp", "3"): "not enough resources",
            gamma.submit("true\n", "-l", "virtual_free=1M"): "gamma has no virtual_free: [map.gamma",
        }
        told = {job: reason(gamma.grid, job) for job in jobs}
        explained = {job: why(gamma.grid, job) for job in jobs}
    finally:
        gamma.grid.sh(HOME, f"qdel {' '.join(jobs)}; :", user="alice")
        gamma.grid.sh(FAR, f"oaradmissionrules -d {rule}; :")

    assert {job: words for job, words in jobs.items() if words not in told[job]} == {}
    assert {job: words for job, words in jobs.items() if words not in explained[job]} == {}


@pytest.mark.long
@pytest.mark.usefixtures("tidy")
def test_explain_shows_oarsub_itself_and_changes_nothing(gamma: Gamma) -> None:
    limits = ("-l", "h_rt=90,mem_free=500M", "-soft", "-l", "arch=lx-amd64")
    job = gamma.submit("true\n", "-h", "-pe", "smp", "2", "-hard", *limits)
    said = gamma.grid.on(HOME, "gridbridge", "explain", job, "--to", "gamma", user="alice")
    gamma.grid.cell("alpha", "qdel", job)
    words = shlex.split(said.out.splitlines()[0])

    assert (0, "/usr/bin/oarsub") == (said.status, words[0])
    assert "/nodes=1/resource_id=2,walltime=0:1:30" == words[words.index("-l") + 1]
    assert "core >= '500'" == words[words.index("-p") + 1]
    assert "gamma accepts no soft requests" in said.out
    assert [] == gamma.jobs()


@pytest.mark.usefixtures("tidy")
def test_a_pushed_end_is_queried_at_once(gamma: Gamma) -> None:
    """The next poll would come only some seconds later."""
    job = gamma.submit("date +%s.%N >ran.at\n")
    gamma.grid.until_gone(job)
    gone = time.time()
    said = why(gamma.grid, job)

    assert "gamma pushed the job's end" in said
    assert LIMIT_S > gone - float(gamma.read("ran.at"))


@pytest.fixture(scope="module")
def full(gamma: Gamma) -> Iterator[None]:
    """Fill gamma with four tasks, and let two more wait there."""
    gamma.until_clean()
    job = gamma.submit("sleep 304\n", "-t", "1-6")
    states = ["Running"] * 4 + ["Waiting"] * 2
    gamma.grid.until(lambda: states == sorted(job["state"] for job in gamma.jobs()), "four to run, two to wait")
    yield
    gamma.grid.cell("alpha", "qdel", job)
    gamma.grid.until_gone(job)
    gamma.until_clean()


@pytest.mark.long
@pytest.mark.usefixtures("full")
def test_one_oarstat_call_an_interval_serves_any_number_of_transfers(gamma: Gamma) -> None:
    """The test counts calls of oarstat by the service and by the six starters."""
    with oarstat_counted(gamma) as asked:
        rows = gamma.grid.until(lambda: found if len(found := asked()) > INTERVALS else [], "more questions", LONG_S)
    times = [float(at) for _, at in rows]

    assert {"gb_gamma"} == {account for account, _ in rows}
    assert INTERVAL_S - 0.2 < (times[-1] - times[0]) / (len(times) - 1)


@contextmanager
def oarstat_counted(gamma: Gamma) -> Iterator[Callable[[], list[list[str]]]]:
    """Record each call of oarstat at gamma with its time; yield a function that returns the calls."""
    gamma.grid.sh(FAR, COUNTED)
    try:
        yield lambda: [line.split() for line in gamma.grid.sh(FAR, "cat /tmp/asked").splitlines()]
    finally:
        gamma.grid.sh(FAR, f"mv {OARSTAT}.kept {OARSTAT}; rm /tmp/asked")


@pytest.mark.long
@pytest.mark.usefixtures("full")
def test_a_waiting_job_is_held_by_a_suspend_and_deleted(gamma: Gamma) -> None:
    job = gamma.submit("echo ran >>ran\n")
    number = gamma.number(job)
    gamma.until_state(number, "Waiting")
    gamma.grid.cell("alpha", "qmod", "-sj", job)
    gamma.until_state(number, "Hold")
    gamma.grid.cell("alpha", "qmod", "-usj", job)
    gamma.until_state(number, "Waiting")
    gamma.grid.cell("alpha", "qdel", job)
    gamma.grid.until_gone(job)
    gamma.grid.until(lambda: int(number) not in live(gamma), f"{number} to be gone")

    assert "" == gamma.read("ran")

"""An attacker with the service account can neither run a foreign program at real clusters nor run a task twice."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, ledger, published, submit, until_state
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

AS_THE_SERVICE = ("runuser", "-u", "gridbridge", "--")
AS_USER = ("sudo", "-n", "/opt/gridbridge/bin/gridbridge-as-user")
ROOTS_LEDGER = "/var/lib/gridbridge-ledger"
SPOOL = "/var/spool/gridbridge/campaigns"
AT = {"beta": (HOST, "alice"), "gamma": (FAR, ACCOUNT)}
BOTH: dict[str, Any] = {"beta": {"max_jobs": 2}, "gamma": {"max_jobs": 2}}
BETA: dict[str, Any] = {"beta": {}}
FOLDER = "~/stolen"
ENDED = 0  # the task that ends at once; the others wait for their gate
PARAMETERS = ["ended", "a", "b", "c", "d"]
RUN = """sh -c 'echo $CIGRI_JOB_ID >>ran
case $1 in ended) ;; *) until [ -e go ]; do sleep 0.2; done ;; esac' sh"""
BACKUP = "/root/earlier.tar.gz"
TERMINATED = "terminated"
SUBMITTED_BEFORE, HAS_ENDED, NO_FILE, NOT_NOW, REFUSED = 5, 8, 9, 75, 2
NOT_OURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """The numbers of three campaigns: with tasks at both clusters, ended, and changed before its first task."""

    living: int
    over: int
    changed: int


@pytest.fixture(scope="module")
def there(site: Grid) -> Iterator[There]:
    """Back the site up, submit the campaigns, and stop the runner."""
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER} && mkdir {FOLDER}", user=user)
    site.sh(HOST, f"gridbridge backup {BACKUP}")
    living = submit(site, jdl(RUN, BOTH, params=PARAMETERS))
    over = submit(site, jdl("sh -c 'echo $CIGRI_JOB_ID >>ran'", BETA, nb_jobs=1))
    until_state(site, over, TERMINATED)
    site.until(lambda: {*BOTH} == running(site, living), "tasks to live at both", CAMPAIGN_S)
    changed = change(site)
    site.until(lambda: ["end"] in ledger(site, over), "root to know the end", CAMPAIGN_S)
    runner.stop(site)
    yield There(living=living, over=over, changed=changed)
    runner.start(site)
    for host, user in AT.values():  # its tasks would keep their slots from who comes next
        site.sh(host, f"touch {FOLDER}/go", user=user)
    until_state(site, living, TERMINATED)
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER}", user=user)


def jdl(exec_file: str, clusters: dict[str, Any], **other: Any) -> dict[str, Any]:
    known = {"name": "stolen", "type": "normal", "exec_file": exec_file, "walltime": "0:10"}
    return {**known, "exec_directory": FOLDER, "clusters": clusters, **other}


def running(grid: Grid, number: int) -> set[str]:
    """Return the clusters where the campaign's tasks run; empty until one of its tasks has ended."""
    found = published(grid, number)
    return {one["cluster"] for one in found["at"] if one["running"] and found["ended"]}


def change(grid: Grid) -> int:
    grid.cell("beta", "qmod", "-d", "all.q", user="root")
    try:
        grid.until(lambda: not free(grid, "beta"), "beta to have no free slot", CAMPAIGN_S)
        number = submit(grid, jdl("sh -c 'touch evil'", BETA, nb_jobs=1))
        grid.sh(HOST, f"echo 1 >>{SPOOL}/c.{number}", user="alice")
        assert [] == ledger(grid, number)
    finally:
        grid.cell("beta", "qmod", "-e", "all.q", user="root")
    until_state(grid, number, TERMINATED)
    return number


def free(grid: Grid, cluster: str) -> int:
    told = json.loads(grid.sh(HOST, "gridclusters --json", user="bob"))
    return int(next(one["free"] for one in told if one["name"] == cluster))


def stolen(grid: Grid, *words: str) -> Done:
    return grid.on(HOST, *AS_THE_SERVICE, *AS_USER, *words, timeout_s=100)


def sent(grid: Grid, *words: str) -> tuple[int, str]:
    """Request an array of tasks; return the status and the reason of the answer."""
    done = stolen(grid, "send-arrays", *words)
    told = done.out if done.status == 0 else f"{done.status} 0 {done.err}"
    status, _, why = told.split(" ", 2)
    return int(status), why


def place_of(grid: Grid, there: There, cluster: str) -> int:
    rows = [row for row in ledger(grid, there.living) if row[0] == "array" and row[2] == cluster]
    return int(rows[-1][3].rpartition(",")[2].partition(":")[0].rpartition("-")[2])


def seen(grid: Grid, there: There) -> tuple[Any, ...]:
    rows = [row for one in (there.living, there.over) for row in ledger(grid, one)]
    at_beta = [line.split()[0] for line in runner.at_beta(grid, there.living)]
    return rows, at_beta, len(runner.at_gamma(grid, there.living))


def test_no_task_runs_from_a_campaign_file_changed_before_its_first_use(site: Grid, there: There) -> None:
    """The service records the checksum at submission, and the helper compares it at each call."""
    status, why = sent(site, f"c.{there.changed}", "beta", "90", "0:1")

    assert status in (REFUSED, HAS_ENDED), why
    words = f"array={there.changed}\\..*the file has changed since the service accepted it"
    assert site.sh(HOST, f"grep '{words}' {runner.LOG}")
    assert runner.shown(site, there.changed)["failed"] == 1
    assert not [row for row in ledger(site, there.changed) if row[0] == "array"]
    assert "" == site.sh(HOST, f"find {FOLDER} -name evil", user="alice")


@pytest.mark.parametrize("cluster", ["beta", "gamma"])
def test_no_attempt_is_sent_twice_or_beside_a_living_attempt(site: Grid, there: There, cluster: str) -> None:
    """The earlier and the new attempt may be at any cluster."""
    before, living = seen(site, there), place_of(site, there, cluster)
    lives = f"an earlier attempt of a task is still at {cluster}"

    for target, asked, expected, words in (
        (cluster, f"{ENDED}:1", SUBMITTED_BEFORE, f"an attempt of {ENDED}:1 was submitted before"),
        (cluster, f"{living}:1", NOT_NOW, lives),
        ("beta", f"{living}:2", NOT_NOW, lives),
        ("gamma", f"{ENDED}:2,{living}:9", NOT_NOW, lives),
    ):
        status, why = sent(site, f"c.{there.living}", target, "90", asked)
        assert (expected, True) == (status, words in why), (asked, target, why)
    assert before == seen(site, there)


DISGUISES = (
    ("-N", "evil", "-A", "evil"),
    ("-ac", "evil=1", "-S", "/bin/bash", "-p", "-7"),
    ("-v", "__SGE_PREFIX__O_MAIL=evil,MAIL=evil,SGE_O_MAIL=evil"),
    ("-v", "__SGE_PREFIX__O_MAIL"),
    ("-V",),
)


def test_an_array_renamed_by_an_operator_is_recognised(site: Grid, there: There) -> None:
    """The helper finds the array by its id, or by the record of its submission."""
    campaign, living = f"c.{there.living}", place_of(site, there, "beta")
    at_first, rows = seen(site, there), ledger(site, there.living)
    number, tasks = next((row[1], row[3]) for row in reversed(rows) if row[0] == "array" and row[2] == "beta")
    job = next(row[2] for row in rows if row[:2] == ["job", number])
    for options in DISGUISES:
        done = site.cell("beta", "qalter", *options, job, user="gridbridge")
        assert "modified" in done.out, done
    before = seen(site, there)
    try:
        by_id = sent(site, campaign, "gamma", "90", f"{living}:2")
        assert before == seen(site, there)
        site.sh(HOST, f"sed -i '/^job {number} /d' {ROOTS_LEDGER}/{campaign}")
        by_mark = sent(site, campaign, "gamma", "90", f"{living}:2")
        again = stolen(site, "send-arrays", campaign, "beta", number, tasks)
    finally:
        name = ("-N", f"campaign.{there.living}", "-A", f"gc.alpha.{there.living}.{number}")
        site.cell("beta", "qalter", *name, job, user="gridbridge")

    assert [(NOT_NOW, True)] * 2 == [
        (status, "an earlier attempt of a task is still at beta" in why) for status, why in (by_id, by_mark)
    ]
    assert f"{NOT_OURS} {job} job {job} of alice has account 'evil'" in again.out, again
    assert ["job", number, job] in ledger(site, there.living)
    assert at_first[1:] == seen(site, there)[1:]


def test_no_task_of_an_ended_campaign_is_sent(site: Grid, there: There) -> None:
    """Not even the service account can resume an ended campaign."""
    before = seen(site, there)

    assert HAS_ENDED == sent(site, f"c.{there.over}", "beta", "90", "0:2")[0]
    assert SUBMITTED_BEFORE == sent(site, f"c.{there.over}", "beta", "91", "0:1")[0]
    assert REFUSED == stolen(site, "take-up", f"c.{there.over}", "0" * 32).status
    assert before == seen(site, there)


def test_no_campaign_file_of_the_service_account_and_no_renamed_file_is_used(site: Grid, there: There) -> None:
    """The service account owns the folder: it may add any file there, and rename alice's."""
    before, aside = seen(site, there), f"{SPOOL}/c.999992"
    forged = (
        f"sed 's/echo/touch evil; echo/' {SPOOL}/c.{there.over} >{SPOOL}/c.999991",
        f"ln -s c.{there.over} {SPOOL}/c.999993",
        f"ln {SPOOL}/c.{there.over} {aside}",
    )
    try:
        for script in forged:
            site.on(HOST, *AS_THE_SERVICE, "sh", "-c", script)
        for number, status in (("999991", REFUSED), ("999992", NO_FILE), ("999993", NO_FILE)):
            assert status == sent(site, f"c.{number}", "beta", "1", "0:1")[0]
        site.sh(HOST, f"rm -f {aside} && mv {SPOOL}/c.{there.over} {aside}")
        without_a_note = f"mv {SPOOL}/given {SPOOL}/given.aside"
        assert REFUSED == sent(site, "c.999992", "beta", "1", "0:1")[0]
        site.sh(HOST, f"{without_a_note}")
        assert REFUSED == sent(site, "c.999992", "beta", "1", "0:1")[0]
    finally:
        site.sh(HOST, f"cd {SPOOL}; [ ! -e given.aside ] || mv given.aside given")
        site.sh(HOST, f"[ ! -e {aside} ] || mv {aside} {SPOOL}/c.{there.over}")
        site.sh(HOST, f"rm -f {SPOOL}/c.99999[1-3]")
    assert before == seen(site, there)
    assert "" == site.sh(HOST, f"find {FOLDER} -name evil", user="alice")


@pytest.mark.long
def test_no_task_runs_again_after_an_old_state_file_is_restored(site: Grid, there: There) -> None:
    """The old state file lacks the campaigns. The campaigns pause, and resume from root's ledger."""
    site.sh(HOST, f"gridbridge restore --stop {BACKUP}")
    site.require_ready()
    used, free_number = (sent(site, f"c.{there.living}", "beta", number, "4:7")[0] for number in ("1", "70"))
    assert (SUBMITTED_BEFORE, NOT_NOW) == (used, free_number)
    runner.start(site)
    for number in (there.living, there.over):
        until_state(site, number, "paused")
        assert 0 == site.on(HOST, "griddel", "-r", str(number), user="alice", timeout_s=100).status
    for host, user in AT.values():
        site.sh(host, f"touch {FOLDER}/go", user=user)
    found = [until_state(site, number, TERMINATED) for number in (there.living, there.over)]

    expected = Counter(f"{there.living}.{task}" for task in range(len(PARAMETERS)))
    assert expected + Counter([f"{there.over}.0"]) == ran(site)
    assert [(len(PARAMETERS), 0), (1, 0)] == [(one["ended"], one["failed"]) for one in found]


def ran(grid: Grid) -> Counter[str]:
    told = (grid.sh(host, f"cat {FOLDER}/ran; :", user=user) for host, user in AT.values())
    return Counter("".join(told).split())

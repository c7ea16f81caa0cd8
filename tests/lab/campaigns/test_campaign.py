"""Campaigns run on real Grid Engine and real OAR together: each task once, until the campaign ends."""

import json
from collections import Counter

import pytest

from gridbridge.campaigns.cli.command_relay_and_runner_wait import WAITING
from tests.lab.campaigns import runner
from tests.lab.campaigns.together import AT, BOTH, FAILING, FOLDER, PARAMETERS, TWICE, Brought
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

FOUND = "cd ~/campaigns && one=$(ls env.* | head -n 1) && cat $one && wc -l <nodes.${one#env.}"
ALIASES = {
    "CIGRI_NODEFILE": "CIGRI_NODE_FILE",
    "CIGRI_JOBID": "CIGRI_JOB_ID",
    "CIGRI_CAMPAIGNID": "CIGRI_CAMPAIGN_ID",
    "CIGRI_JOBNAME": "CIGRI_JOB_NAME",
    "CIGRI_WORKING_DIRECTORY": "CIGRI_WORKDIR",
}
OTHERS = ("USER", "CLUSTER", "COPY", "RESOURCES", "WALLTIME", "WALLTIME_SECONDS")
WORDS = {*ALIASES, *ALIASES.values(), *(f"CIGRI_{name}" for name in OTHERS)}
TERMINATED, CANCELLED = "terminated", "cancelled"


@pytest.fixture(scope="module")
def kinds(brought: Brought) -> int:
    return brought.numbers["kinds"]


@pytest.fixture(scope="module")
def sleeping(site: Grid, brought: Brought) -> int:
    number = brought.numbers["sleeping"]
    site.until(lambda: _living(site, number), "tasks to be sent", runner.CAMPAIGN_S)
    return number


def ran(grid: Grid) -> Counter[str]:
    lines = (grid.sh(host, "cat ~/campaigns/ran", user=user) for host, user in AT.values())
    return Counter(line.split()[0] for line in "".join(lines).splitlines())


def test_every_task_runs_once_and_is_counted(site: Grid, kinds: int) -> None:
    """Only a task that asks for a rerun runs twice. No exit status makes Grid Engine rerun a task."""
    found = runner.until_state(site, kinds, TERMINATED)

    assert Counter({each.split()[0]: 1 + (each in TWICE) for each in PARAMETERS}) == ran(site)
    assert (len(PARAMETERS), len(PARAMETERS), len(FAILING) + 1) == (found["tasks"], found["ended"], found["failed"])
    for name, told in FAILING.items():
        task = f"{kinds}.{PARAMETERS.index(name)}"
        assert told in site.on(runner.HOST, "gridbridge", "why", task, user="bob").out
    killed = f"{kinds}.{PARAMETERS.index('killed')}"
    told = site.on(runner.HOST, "gridstat", "--json", "-j", killed, user="bob").out
    assert ("signal", None) == tuple(json.loads(told)[key] for key in ("state", "exit_status"))


def test_a_task_has_cigris_variables_on_both_batch_systems(site: Grid, kinds: int) -> None:
    """CiGri's variables and their aliases are set, and the node file has a line for each slot."""
    runner.until_state(site, kinds, TERMINATED)
    for cluster, (host, user) in AT.items():
        lines = site.sh(host, FOUND, user=user).splitlines()
        known = dict(line.split("=", 1) for line in lines[:-1])

        assert WORDS == known.keys()
        assert {cluster} == {known["CIGRI_CLUSTER"]}
        assert [known[name] for name in ALIASES] == [known[name] for name in ALIASES.values()]
        assert (f"{kinds}.", "1", "300") == (
            known["CIGRI_JOB_ID"][: len(f"{kinds}.")],
            known["CIGRI_RESOURCES"],
            known["CIGRI_WALLTIME_SECONDS"],
        )
        assert "1" == lines[-1]


def test_both_batch_systems_take_part(site: Grid, kinds: int) -> None:
    assert {*BOTH} == runner.clusters_of(site, kinds)


def test_no_part_of_a_parameter_is_executed(site: Grid, kinds: int) -> None:
    runner.until_state(site, kinds, TERMINATED)
    for host, user in AT.values():
        assert "" == site.sh(host, "find ~/campaigns -name evil", user=user)


def test_only_the_owner_reads_a_campaigns_parameters(site: Grid, kinds: int) -> None:
    folder = "/var/spool/gridbridge/campaigns"

    assert site.on(runner.HOST, "cat", f"{folder}/c.{kinds}", user="bob").status == 1
    assert site.on(runner.HOST, "ls", folder, user="bob").status == 2
    assert site.on(runner.HOST, "cat", f"{folder}/c.{kinds}", user="alice").status == 0


BROUGHT = '{"name": "theirs", "clusters": {"beta": {"exec_file": "touch ~/evil"}}}'


@pytest.mark.parametrize(
    "script",
    [
        "echo 99 >>{folder}/c.{number}",
        "rm -f {folder}/c.{number}",
        "mv {folder}/c.{number} {folder}/c.999999",
        "echo '{brought}' >{folder}/u.{uid}/new.{token}",
        "mv {folder}/u.{uid} {folder}/u.{uid}.{token}",
        "ln {folder}/c.{number} {folder}/u.$(id -u)/new.{token}",
    ],
    ids=["alters it", "removes it", "moves it", "brings one", "moves her folder", "links it"],
)
def test_another_person_can_neither_change_nor_submit_a_campaign_file(site: Grid, sleeping: int, script: str) -> None:
    known = {"folder": "/var/spool/gridbridge/campaigns", "number": sleeping, "token": "0" * 32}
    uid = site.sh(runner.HOST, "id -u alice").strip()
    asked = script.format(**known, uid=uid, brought=BROUGHT)

    assert site.on(runner.HOST, "sh", "-c", asked, user="bob").status
    assert _living(site, sleeping)


def test_a_test_campaign_runs_one_task_at_each_cluster(site: Grid, brought: Brought) -> None:
    number = brought.numbers["test"]
    found = runner.until_state(site, number, TERMINATED)

    assert (2, 2, 0) == (found["tasks"], found["ended"], found["failed"])
    rows = [row[2:] for row in runner.ledger(site, number) if row[0] == "array"]
    clusters, tasks = zip(*rows, strict=True)
    assert ({*BOTH}, {"0:1", "1:1"}) == ({*clusters}, {*tasks})


def test_a_changed_file_is_not_run(site: Grid, brought: Brought, sleeping: int) -> None:
    """Root's ledger has the checksum of the submitted file."""
    number = brought.numbers["changed"]
    found = runner.until_state(site, number, TERMINATED)

    assert found["failed"] >= 3
    assert "the file has changed since" in site.sh(runner.HOST, f"grep -F {number}. {runner.LOG}")
    assert 1 == len(runner.jobs_of(site, number))
    assert _living(site, sleeping)


def test_root_may_change_a_campaign_and_another_user_may_not(site: Grid, sleeping: int) -> None:
    """The owner of a request's file counts as the requester."""
    done = site.on(runner.HOST, "griddel", str(sleeping), user="bob", timeout_s=200)
    paused, going = (site.on(runner.HOST, "griddel", each, str(sleeping), timeout_s=200) for each in ("-p", "-r"))

    refused = f"griddel: campaign {sleeping}: owned by another user\n"

    assert 1 == done.status
    assert done.err in (refused, f"griddel: {WAITING}\n{refused}")  # a busy runner may answer late
    told = f"Campaign {sleeping} paused", f"Campaign {sleeping} resumed"
    assert told == (paused.out.strip(), going.out.strip())
    assert _living(site, sleeping)


def test_a_cancelled_campaign_ends_at_every_cluster(site: Grid, sleeping: int) -> None:
    """Only the epilogue is still sent, once to each cluster."""
    done = site.on(runner.HOST, "griddel", str(sleeping), user="alice", timeout_s=200)

    assert (0, f"Campaign {sleeping} cancelled") == (done.status, done.out.strip())
    runner.until_state(site, sleeping, CANCELLED)
    at = [place for name, place in AT.items() if name in runner.clusters_of(site, sleeping)]
    site.until(lambda: {"after\n"} == {_cancelled(site, *one) for one in at}, "its epilogue to run")
    site.until(lambda: not _living(site, sleeping), "no cluster to have any of it", runner.CAMPAIGN_S)


def _cancelled(grid: Grid, host: str, user: str) -> str:
    return grid.sh(host, f"cat {FOLDER}/cancelled 2>/dev/null; :", user=user)


def _living(grid: Grid, number: int) -> list[str]:
    return runner.at_beta(grid, number) + runner.at_gamma(grid, number)

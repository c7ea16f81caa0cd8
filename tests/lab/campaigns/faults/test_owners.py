"""Campaign owners whose account vanishes, whose disk is full, or who submit more than the limits allow."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.full.test_nikita import NIKITA
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, ledger, submit, until_state
from tests.lab.configured import configured
from tests.lab.grid import Done, Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

OWNER, UID = "carol", 10003  # nobody else's tests use her
FEW = "/^.runner.$/,/^.metascheduler.$/{s/^#files_per_uid.*/files_per_uid = 2/;"
FEW += " s/^#mb_per_uid.*/mb_per_uid = 1/}; s/^#probe_s.*/probe_s = 10/"
FOLDER = "~/owners"
TASKS = 4
RUN = "sh -c 'echo $CIGRI_JOB_ID >>ran; until [ -e go.$1 ]; do sleep 0.2; done' sh"
PRINTS = "sh -c 'head -c 200000 /dev/zero || exit 4'"
SMALL = "/home/carol/owners/small"
BRINGS = f"/var/spool/gridbridge/campaigns/u.{UID}"
BETA_HOSTS = ("beta-n1", "beta-n2")
ACCOUNT_BACK = f"groupadd -g {UID} carol; useradd -M -u {UID} -g {UID} -s /bin/bash carol"
TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    number: int
    printing: int
    refused: Mapping[str, Done]
    codes: frozenset[str]
    meanwhile: Mapping[str, Any]
    left: tuple[str, ...]


@pytest.fixture(scope="module")
def site(site: Grid) -> Iterator[Grid]:
    runner.stop(site)
    with configured(site, FEW):
        runner.start(site)
        yield site
        runner.stop(site)
    runner.start(site)


@pytest.fixture(scope="module")
def seen(site: Grid) -> Iterator[Seen]:
    """Let alice submit campaigns, and remove her account while a campaign has tasks."""
    site.sh(HOST, f"rm -rf {FOLDER} && mkdir -p {SMALL}", user=OWNER)
    with small(site, SMALL, BETA_HOSTS, "size=64k,mode=755,uid=10003,gid=10003"):
        refused = {"too large": typed(site, "1-200000")}
        number = submit(site, jdl(RUN, nb_jobs=TASKS, max_jobs=2), user=OWNER)
        printing = submit(site, jdl(PRINTS, nb_jobs=1, exec_directory=SMALL), user=OWNER)
        refused["too many"] = typed(site, "1")
        site.until(lambda: runner.running_tasks(site, number) == 2, "two tasks to run", CAMPAIGN_S)
        with no_account(site):
            site.sh(HOST, "touch /home/carol/owners/go.0")
            site.until(lambda: "OWNER_UNKNOWN" in codes(site, number), "an event", CAMPAIGN_S)
            site.sh(HOST, NIKITA, timeout_s=120)
            meanwhile, left = runner.shown(site, number), tuple(hers(site, number))
            open_events = codes(site, number)
        site.sh(HOST, f"cd {FOLDER} && touch go.1 go.2 go.3", user=OWNER)
        for one in (number, printing):
            until_state(site, one, TERMINATED)
        with small(site, BRINGS, (HOST,), "size=4k,nr_inodes=1,mode=770,uid=10003,gid=990"):
            refused["no room"] = typed(site, "1")
        yield Seen(number=number, printing=printing, refused=refused, codes=open_events, meanwhile=meanwhile, left=left)
    for one in (number, printing):
        site.on(HOST, "griddel", "--purge", str(one), user=OWNER, timeout_s=100)
    site.sh(HOST, f"rm -rf {FOLDER}", user=OWNER)


def jdl(exec_file: str, **other: Any) -> dict[str, Any]:
    known = {"name": "owners", "type": "normal", "exec_file": exec_file, "walltime": "0:10"}
    return {**known, "exec_directory": FOLDER, "clusters": {"beta": {}}, **other}


@contextmanager
def small(grid: Grid, folder: str, hosts: tuple[str, ...], options: str) -> Iterator[None]:
    """Put a folder of alice on a small filesystem, because this kernel has no quota."""
    for host in hosts:
        grid.sh(host, f"mount -t tmpfs -o {options} none {folder}")
    try:
        yield
    finally:
        for host in hosts:
            grid.sh(host, f"umount -l {folder}")


@contextmanager
def no_account(grid: Grid) -> Iterator[None]:
    """Remove alice's account from the site's host. The clusters keep her accounts."""
    grid.sh(HOST, "userdel -f carol 2>/dev/null; ! getent passwd carol")
    try:
        yield
    finally:
        grid.sh(HOST, f"{ACCOUNT_BACK}; getent passwd carol")


def typed(grid: Grid, numbers: str) -> Done:
    argv = ("gridsub", "--array", numbers, "--clusters", "beta", "--", "true")
    return grid.on(HOST, *argv, user=OWNER, timeout_s=100)


def hers(grid: Grid, number: int) -> list[str]:
    listed = grid.sh("beta-master", f"qstat -s r -r -u {OWNER}")
    return [line for line in listed.splitlines() if line.endswith(f" campaign.{number}")]


def codes(grid: Grid, number: int) -> frozenset[str]:
    told = grid.on(HOST, "gridevents", "--json", "-c", str(number), user="bob").out
    return frozenset(one["code"] for one in json.loads(told))


def test_no_task_is_sent_or_deleted_while_the_owner_has_no_account(seen: Seen) -> None:
    """Running tasks go on, and a task that ends is counted."""
    assert {"OWNER_UNKNOWN", "NO_CLUSTER"} >= seen.codes >= {"OWNER_UNKNOWN"}
    assert ("in_treatment", 1, 0) == tuple(seen.meanwhile[key] for key in ("state", "ended", "failed"))
    assert 1 == len(seen.left)


def test_each_task_runs_once_when_the_account_is_back(site: Grid, seen: Seen) -> None:
    found = runner.shown(site, seen.number)
    told = site.sh(HOST, f"cat {FOLDER}/ran", user=OWNER).split()

    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert Counter({f"{seen.number}.{task}": 1 for task in range(TASKS)}) == Counter(told)
    assert frozenset() == codes(site, seen.number)
    assert "2" not in {row[3].partition(":")[2] for row in ledger(site, seen.number) if row[3:]}


@pytest.mark.parametrize(
    ("what", "would"),
    [("too large", "you would have 1 campaign file with"), ("too many", "you would have 3 campaign ")],
)
def test_campaign_files_are_limited_for_each_person(seen: Seen, what: str, would: str) -> None:
    """`gridsub` reports the limit and the remedy."""
    done = seen.refused[what]

    assert (1, True) == (done.status, would in done.err), done
    assert "at most 2 files with 1 MB: griddel --purge removes the files of ended campaigns" in done.err


def test_gridsub_refuses_a_campaign_when_its_owners_disk_is_full(seen: Seen) -> None:
    done = seen.refused["no room"]

    assert (75, True) == (done.status, "No space left on device" in done.err), done
    assert 1 == len(done.err.splitlines())


def test_a_task_that_has_no_room_for_its_output_has_failed(site: Grid, seen: Seen) -> None:
    told = site.on(HOST, "gridbridge", "why", f"{seen.printing}.0", user=OWNER).out

    assert "exit status 4" in told

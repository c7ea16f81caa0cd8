"""Each campaign task runs once although clusters give cut or reversed answers, or nodes are full.

One campaign, whose name and parameters are full of shell and SQL, runs at both clusters while their
answers are falsified. The nodes of the OAR server have no room for another campaign.
"""

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, ledger, published, submit, until_state
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, FAR, NODES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

AT = {"beta": (HOST, "alice"), "gamma": (FAR, ACCOUNT)}
ODD = """x'; DROP TABLE jobs; -- $(touch evil) `touch evil` | touch evil; "$HOME" \\ %s ' ../é"""
RUN = """sh -c 'printf "%s\\n" "$CIGRI_JOB_ID $2" >>ran; until [ -e go ]; do sleep 0.2; done' sh"""
PARAMETERS = [*(f"{n} {shlex.quote(ODD)}" for n in range(3)), "3 $(touch evil) ; touch evil #"]
FOLDER, ROOM = "~/answers", "/home/al_gamma/answers-room"
TASKS = 4
MOST = {"max_jobs": 2}
PATIENT = "s/^forgotten_s = .*/forgotten_s = 120/"
# OAR's own answer is empty where there are no jobs.
FORMS = ("empty", "half", "without jobs", "reversed")
TRUE = "true"
LIES = "/run/lies"
LIAR = f"""#!/bin/sh
form=$(cat {LIES}/form)
OF_CLUSTER || exec PROGRAM.real "$@"
echo "$form" >>{LIES}/told
case $form in
{TRUE}) PROGRAM.real "$@" ;;
reversed) PROGRAM.real "$@" | /usr/bin/python3 -I {LIES}/reversed ;;
half) told=$(PROGRAM.real "$@"); printf %s "$told" | head -c $((${{#told}} / 2)) ;;
without*) WITHOUT ;;
esac
"""
REVERSED = Path(__file__).with_name("reversed_answer.py")
PROGRAMS = {
    HOST: (
        "/usr/lib/gridengine/qstat",
        '[ "$SGE_CELL" = beta ]',
        "PROGRAM.real \"$@\" | sed '/<job_list/,/<\\/job_list>/d'",
    ),
    FAR: ("/usr/bin/oarstat", ":", "echo '{}'"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    odd: int
    roomless: int
    after: dict[str, tuple[int, int]]


@pytest.fixture(scope="module")
def seen(site: Grid) -> Iterator[Seen]:
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER}* && mkdir {FOLDER} {FOLDER}-room", user=user)
    with patient(site), no_room(site), liars(site):
        clusters = dict.fromkeys(AT, MOST)
        known = {"type": "normal", "walltime": "0:10", "clusters": clusters}
        first = {"name": ODD, "params": PARAMETERS, "exec_file": RUN, "exec_directory": FOLDER}
        second = {"name": "room", "exec_file": "sh -c 'echo $CIGRI_JOB_ID >>ran'"}
        odd = submit(site, known | first)
        roomless = submit(site, known | second | {"nb_jobs": TASKS, "exec_directory": f"{FOLDER}-room"})
        site.until(lambda: runner.running_tasks(site, odd) == TASKS, "all tasks to run", CAMPAIGN_S)
        site.until(lambda: "SETUP_ERROR" in runner.events_by_code(site, roomless), "an event", CAMPAIGN_S)
        after = {form: told(site, odd, form) for form in FORMS}
        for host, user in AT.values():
            site.sh(host, f"touch {FOLDER}/go", user=user)
        for number in (odd, roomless):
            until_state(site, number, "terminated")
    yield Seen(odd=odd, roomless=roomless, after=after)
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER}*", user=user)


@contextmanager
def patient(grid: Grid) -> Iterator[None]:
    """Run a runner that counts no task as deleted while the clusters' answers are falsified."""
    try:
        with configured(grid, PATIENT):
            runner.stop(grid)
            runner.start(grid)
            yield
    finally:
        runner.stop(grid)
        runner.start(grid)


@contextmanager
def no_room(grid: Grid) -> Iterator[None]:
    for node in NODES:
        options = "size=64k,nr_inodes=1,mode=755,uid=$(id -u al_gamma)"
        grid.sh(node, f"mount -t tmpfs -o {options} none {ROOM}")
    try:
        yield
    finally:
        for node in NODES:
            grid.sh(node, f"umount -l {ROOM}")


@contextmanager
def liars(grid: Grid) -> Iterator[None]:
    for host, (program, of_cluster, without) in PROGRAMS.items():
        script = LIAR.replace("OF_CLUSTER", of_cluster).replace("WITHOUT", without)
        script = script.replace("PROGRAM", program)
        begin = f"mkdir -m 1777 {LIES} && echo {TRUE} >{LIES}/form && cp -p {program} {program}.real"
        grid.sh(host, begin)
        grid.sh(host, f"cat >{LIES}/liar <<'end'\n{script}end\nchmod 755 {LIES}/liar")
        grid.sh(host, f"cat >{LIES}/reversed <<'end'\n{REVERSED.read_text()}end")
        grid.sh(host, f"mount --bind {LIES}/liar {program}")
    try:
        yield
    finally:
        for host, (program, *_) in PROGRAMS.items():
            grid.sh(host, f"umount -l {program}; rm -rf {LIES} {program}.real")


def told(grid: Grid, number: int, form: str) -> tuple[int, int]:
    """Falsify both clusters' answers for a while; return the numbers of ended and running tasks.

    A task that no answer lists for `forgotten_s` counts as deleted (PATIENT).
    """
    for each in (form, TRUE):
        for host in PROGRAMS:
            grid.sh(host, f"rm -f {LIES}/told; echo '{each}' >{LIES}/form")
        for host in PROGRAMS:
            asked = f"grep -c '{each}' {LIES}/told; :"
            grid.until(
                lambda: int(grid.sh(host, asked) or 0) > 0,  # noqa: B023 - it is asked at once
                f"{host} to be asked",
                CAMPAIGN_S,
            )
    return published(grid, number)["ended"], len(living(grid, number))


def living(grid: Grid, number: int) -> list[str]:
    names = [line for line in runner.at_beta(grid, number) if "Full" in line]
    message = [line for line in runner.at_gamma(grid, number) if '"name"' in line]
    return names + message


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_is_cut_empty_or_reversed_ends_no_task(seen: Seen, form: str) -> None:
    """A single complete answer without any job ends no task either."""
    assert (0, TASKS) == seen.after[form]


def test_each_task_runs_once_whatever_the_clusters_answered(site: Grid, seen: Seen) -> None:
    found = runner.shown(site, seen.odd)

    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert Counter({f"{seen.odd}.{n}": 1 for n in range(TASKS)}) == Counter(
        line.partition(" ")[0] for line in ran(site)
    )
    attempts = [row[3] for row in ledger(site, seen.odd) if row[0] == "array"]
    assert all(told.endswith(":1") for told in attempts), attempts


def ran(grid: Grid) -> list[str]:
    told = (grid.sh(host, f"cat {FOLDER}/ran", user=user) for host, user in AT.values())
    return "".join(told).splitlines()


def test_shell_and_sql_in_a_parameter_is_executed_at_neither_batch_system(site: Grid, seen: Seen) -> None:
    """A task receives its parameter as written."""
    texts = [line.partition(" ")[2] for line in ran(site)]

    assert Counter({ODD: 3, "$(touch": 1}) == Counter(texts)
    assert ODD == runner.shown(site, seen.odd)["name"]
    for host in (HOST, FAR, *NODES, "beta-n1", "beta-n2", "beta-master"):
        assert "" == site.sh(host, "find /home /tmp /var/lib /root -name evil 2>/dev/null; :")


def test_tasks_run_at_another_cluster_when_the_nodes_of_one_are_full(site: Grid, seen: Seen) -> None:
    """Full nodes are a set-up error of OAR's cluster, not a failed task."""
    found = runner.shown(site, seen.roomless)
    at_beta = site.sh(HOST, f"cat {FOLDER}-room/ran", user="alice").split()

    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert "gamma" == runner.events_by_code(site, seen.roomless)["SETUP_ERROR"]["cluster"]
    assert Counter({f"{seen.roomless}.{n}": 1 for n in range(TASKS)}) == Counter(at_beta)

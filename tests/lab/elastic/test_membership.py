"""A bare machine becomes an execution host of the lab's alpha and is removed from the cell again."""

import json
from collections.abc import Iterator

import pytest

from tests.docs.console import ROOT
from tests.lab.grid import Grid, of_root

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

MASTER = "alpha-master"
# The reserve's last host: a qmaster takes the host of an address for the one before for minutes.
NODE, ADDRESS = "alpha-n6", "10.77.0.16"
FOUND_S = 90  # a qmaster that could not find a name looks for it again a minute later
PYTHON = "/opt/gridbridge/venv/bin/python3"
MOUNTS = ("/home", "/opt/gridbridge", "/var/lib/gridengine/alpha/common")
BLOCK = "# gridbridge: nodes that come and go"
CALLS = """\
import json, os, sys
from gridbridge.batch.gridengine.host_membership import GridEngineHostMembership
from gridbridge.batch.gridengine.machine_bootstrap import NewMachineBootstrap
from gridbridge.batch import privileged_helper_calls as root
from gridbridge.batch.gridengine import job_submission_and_control
from gridbridge.errors import GridbridgeError
from gridbridge.model.elastic.elastic_nodes import MachineToJoinCell
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.transfer_route import GridEngineCellAccessSettings

name, address, key, dies_after, calls = json.loads(sys.argv[1])
settings = MachineBootstrapSection(
    steps="names people mounts execd", user="gridadm", key="/etc/gridlab/gridadm.key",
    people="alice bob", mounts="/etc/gridlab/mounts",
)
cell = GridEngineCellAccessSettings(
    root="/var/lib/gridengine", cell="alpha", qmaster_port="6444", execd_port="6445",
    binaries="/var/lib/gridengine/bin/lx-amd64", timeout_s=60,
)
preparing = NewMachineBootstrap(settings=settings, cell=cell, folder="/mnt/checkout/conf/bootstrap")
site = GridEngineHostMembership(cell=cell, preparing=preparing)
node = MachineToJoinCell(
    name=name, address=address, host_key=key, slots=3, resources=(("h_vmem", "4G"),),
    queues=("all.q",),
)
done = 0
def dying(call):
    def counted(*words, **keys):
        global done
        if dies_after and done == dies_after:
            os.kill(os.getpid(), 9)
        done += 1
        return call(*words, **keys)
    return counted
job_submission_and_control.run_program = dying(job_submission_and_control.run_program)
root.run_program = dying(root.run_program)
told = []
for verb in calls:
    try:
        if verb == "join":
            told.append(site.join_host_to_cluster(node).value)
        elif verb == "look":
            seen = site.check_host_before_removal(name)
            told.append([seen.is_idle, seen.is_closed, seen.is_listed])
        elif verb == "close":
            told.append(site.close_host_to_new_tasks(name))
        elif verb == "open":
            told.append(site.open_host_to_tasks(name, frozenset()).value)
        else:
            told.append("still referenced" if site.remove_host(name, is_dead=verb == "leave dead") else "left")
    except GridbridgeError as error:
        told.append([type(error).__name__, str(error)])
print(json.dumps([told, done]))
"""


@pytest.fixture(scope="module")
def grid() -> Iterator[Grid]:
    grid = of_root()
    mounts = "".join(f"/export{folder} {folder} none bind 0 0\n" for folder in MOUNTS)
    grid.on(MASTER, "tee", "/etc/gridlab/mounts", stdin=mounts)
    give_back(grid)
    yield grid
    give_back(grid)


def give_back(grid: Grid) -> None:
    Node(grid, {"address": ADDRESS, "host_key": ""}).ask("close", "leave dead", "leave dead")
    script = """for id in $(/opt/gridlab/power-node list </dev/null | grep -o 'lab-[0-9a-f]*'); do
        echo "{\\"id\\": \\"$id\\"}" | /opt/gridlab/power-node destroy; done"""
    grid.sh(MASTER, script)


class Node:
    def __init__(self, grid: Grid, told: dict[str, str]) -> None:
        self.grid, self.told = grid, told

    def ask(self, *calls: str, key: str = "", dies_after: int = 0) -> list[object]:
        """Return the answers to membership calls; none when the process was killed first."""
        given = (NODE, self.told["address"], key or self.told["host_key"], dies_after, calls)
        done = self.grid.on(MASTER, PYTHON, "-I", "-", json.dumps(given), stdin=CALLS)
        if dies_after and not done.out:
            return []
        assert done.status == 0, done
        answers, self.steps = json.loads(done.out)
        return list(answers)

    def found(self) -> None:
        """Wait until the qmaster resolves the node's name, which another machine may have had before."""

        def is_known() -> bool:
            return self.grid.cell("alpha", "qconf", "-as", NODE, user="root").status == 0

        self.grid.until(is_known, f"the qmaster to find {NODE}", FOUND_S)
        self.grid.cell("alpha", "qconf", "-ds", NODE, user="root")

    def joined(self) -> None:
        self.grid.until(lambda: self.ask("join") == ["joined"], f"{NODE} to join", FOUND_S)

    def left(self, verb: str = "leave") -> None:
        self.grid.until(lambda: self.ask(verb) == ["left"], f"{NODE} to leave")

    def traces(self) -> list[str]:
        script = """for what in -sel -sh -ss -sconfl '-shgrp @allhosts' '-sq all.q'; do
            qconf $what; done; cat /etc/hosts"""
        out = self.grid.sh(MASTER, script)
        return [line for line in out.splitlines() if NODE in line or BLOCK in line]


@pytest.fixture(scope="module")
def node(grid: Grid) -> Node:
    wish = json.dumps({"name": NODE, "pool": "small", "tags": {"gridbridge": "alpha"}})
    grid.sh(MASTER, f"echo '{wish}' | /opt/gridlab/power-node create")

    def running() -> list[dict[str, str]]:
        told = json.loads(grid.sh(MASTER, "/opt/gridlab/power-node list </dev/null"))
        return [one for one in told if one["host_key"]]

    return Node(grid, grid.until(running, f"{NODE} to boot")[0])


def test_a_machine_with_a_wrong_host_key_is_refused_and_the_cell_unchanged(node: Node) -> None:
    script = "ssh-keygen -q -t ed25519 -N '' -f /tmp/k; cat /tmp/k.pub; rm /tmp/k*"
    other = node.grid.sh(MASTER, script)
    node.grid.until(lambda: node.ask("look") == [[True, True, False]], "nothing of it")

    def refused() -> list[object]:
        told = node.ask("join", key=" ".join(other.split()[:2]))
        return told if told[0][0] == "SshAccessRejected" else []  # type: ignore[index]

    ((kind, why),) = node.grid.until(refused, "sshd to answer")
    assert "SshAccessRejected" == kind
    assert "the host key is not the key that the provider reported" in why
    assert [f"{node.told['address']} {NODE}"] == [one for one in node.traces() if BLOCK not in one]


def test_a_daemon_that_does_not_run_fails_its_step(node: Node) -> None:
    step = (ROOT / "conf/bootstrap/execd").read_text()

    done = node.grid.on(NODE, "/bin/sh", "-s", "--", "/var/lib/gridengine", "nosuch", stdin=step)

    assert done.status == 1
    why = "sge_execd does not run: is /var/lib/gridengine/nosuch/common there?"
    assert why == done.err.splitlines()[-1]


def test_a_bare_machine_joins_after_kills_between_any_two_steps_and_runs_tasks(node: Node) -> None:
    grid, kills = node.grid, 0
    node.found()
    for dies_after in range(1, 80, 2):
        answers = node.ask("join", dies_after=dies_after)
        kills += not answers
        if answers:
            break
    node.joined()
    job = grid.submit("-q", f"all.q@{NODE}", "-b", "y", "-cwd", "-o", "/dev/null", "/bin/true")
    ended = grid.accounting_of_end(job)
    slots = grid.sh(MASTER, f"qstat -f -q all.q@{NODE} | grep {NODE}").split()[2]
    resources = grid.sh(MASTER, f"qconf -se {NODE} | grep complex_values").split()[1]

    assert kills >= 5
    assert (NODE, "0") == (ended["hostname"], ended["exit_status"])
    assert "0/0/3" == slots
    assert "h_vmem=4G" == resources


def test_a_host_that_got_a_task_while_leaving_is_detected_and_can_be_reopened(node: Node) -> None:
    grid = node.grid
    node.joined()
    job = grid.submit("-q", f"all.q@{NODE}", "-b", "y", "-cwd", "-o", "/dev/null", "sleep", "300")
    grid.until(lambda: grid.states().get(job) == "r", f"job {job} to run")

    seen = node.ask("close", "look", "leave", "open", "look")
    grid.cell("alpha", "qdel", job, user="root")
    grid.until(lambda: job not in grid.states(), f"job {job} to end")
    assert [None, [False, True, True], "still referenced", "joined", [False, False, True]] == seen


def test_an_idle_host_leaves_without_a_trace_even_if_each_step_is_killed(node: Node) -> None:
    node.joined()
    node.grid.until(lambda: node.ask("look") == [[True, False, True]], "it to be idle")
    node.ask("close")
    kills = 0
    for dies_after in range(1, 80, 2):
        answers = node.ask("leave", dies_after=dies_after)
        kills += not answers
        if answers:
            break
    node.left()

    assert kills >= 5
    assert [] == node.traces()
    assert [[True, True, False]] == node.ask("look")


def test_a_dead_host_is_removed_without_contacting_it(node: Node) -> None:
    node.joined()
    node.grid.lab("power", NODE, "cut")

    node.ask("close")
    node.left("leave dead")
    assert [] == node.traces()

"""The power service rents out bare machines and fails on demand; a machine becomes a host."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.grid import LAB, Done, Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.long]

MASTER = "alpha-master"
KEY = "/etc/gridlab/gridadm.key"
OPTIONS = (
    *("-i", KEY, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
    *("-o", "UserKnownHostsFile=/run/known", "-o", "GlobalKnownHostsFile=/dev/null"),
)
LIMIT_S = 3
NAMES_S = 90  # a qmaster that was asked for a name in vain does not look again for a minute
QUOTA = 4


@pytest.fixture(autouse=True)
def rented(grid: Grid) -> Iterator[None]:
    give_back(grid)
    yield
    give_back(grid)


def give_back(grid: Grid) -> None:
    grid.lab("faults")
    for node in listed(grid):
        assert 0 == ask(grid, "destroy", id=node["id"]).status


def ask(grid: Grid, verb: str, **wish: object) -> Done:
    return grid.on(MASTER, "/opt/gridlab/power-node", verb, stdin=json.dumps(wish))


def told(grid: Grid, verb: str, **wish: object) -> Any:
    done = ask(grid, verb, **wish)
    assert (0, "") == (done.status, done.err), done
    return json.loads(done.out)


def listed(grid: Grid) -> list[dict[str, Any]]:
    found = told(grid, "list")
    assert isinstance(found, list)
    return found


def running(grid: Grid, name: str, **tags: str) -> dict[str, Any]:
    asked = told(grid, "create", name=name, pool="small", tags=tags)
    return reached(grid, asked["id"], "running")


def reached(grid: Grid, identifier: str, state: str) -> dict[str, Any]:
    return grid.until(
        lambda: [one for one in listed(grid) if (one["id"], one["state"]) == (identifier, state)],
        f"{identifier} to be {state}",
    )[0]


def ssh(grid: Grid, node: dict[str, Any], script: str, host_key: str = "") -> Done:
    """Run a script on a node as its administrator, trusting only the node's listed host key."""
    known = f"{node['address']} {host_key or node['host_key']}\n"
    grid.on(MASTER, "tee", "/run/known", stdin=known)
    login = ("ssh", *OPTIONS, f"gridadm@{node['address']}", "sudo -n sh -eu")
    return grid.on(MASTER, *login, stdin=script)


def let_in(grid: Grid, node: dict[str, Any], script: str) -> str:
    grid.until(lambda: 255 != ssh(grid, node, "true").status, "sshd to answer")
    done = ssh(grid, node, script)
    assert 0 == done.status, done
    return done.out


def traces(host: str) -> list[str]:
    state = Path(subprocess.check_output([LAB, "path", "state"], text=True).strip())
    record = Path("/run") / state.name / f"host.{host}"
    disks = (state / "hosts").glob(f"*{host}*")
    return [str(path) for path in (record, *disks) if path.exists()]


def test_a_new_node_is_bare_and_known_to_nobody(grid: Grid) -> None:
    """The node takes the requested name and the first free host, and admits the listed ssh key."""
    node = running(grid, "alpha-n7", owner="gridbridge")
    inside = let_in(grid, node, "hostname; cat /etc/hosts; ls -d /home/* || :")
    daemons = let_in(grid, node, "pgrep -l 'sge_|python' | cut -d' ' -f2 || :").split()
    cell = let_in(grid, node, "ls /var/lib/gridengine; getent passwd alice gridbridge || :")
    stranger = ssh(grid, node, "true", host_key=" ".join(grid.sh(MASTER, f"ssh-keygen -yf {KEY}").split()[:2]))
    outside = grid.sh(MASTER, "cat /etc/hosts; qconf -sh; qconf -ss; qconf -sel; qconf -shgrpl")

    assert ("alpha-n7", "10.77.0.13", {"owner": "gridbridge"}) == (node["name"], node["address"], node["tags"])
    assert "alpha-n7\n127.0.0.1 localhost\n10.77.0.13 alpha-n7\n" == inside
    assert [] == daemons
    assert "alpha" not in cell.split()
    assert "alice" not in cell
    assert "alpha-n3" not in outside
    assert "alpha-n7" not in outside
    assert 255 == stranger.status
    assert "Host key verification failed" in stranger.err


JOIN = Path(__file__).with_name("join_cell.sh").read_text()
ADMIT = """
grep -q alpha-n7 /etc/hosts || echo '10.77.0.13 alpha-n7' >>/etc/hosts
qconf -ah alpha-n7
qconf -aattr hostgroup hostlist alpha-n7 @allhosts
"""
STARTS = "grep -c 'starting up' /var/spool/gridengine/alpha/execd/alpha-n7/messages"
FORGET = Path(__file__).with_name("leave_cell.sh").read_text()


def test_a_node_becomes_a_host_by_ssh_and_stays_one_in_standby(grid: Grid) -> None:
    """The ssh script sets up names, people, mounts, cell and execd. A node in standby is stopped."""
    node = running(grid, "alpha-n7")
    try:
        grid.until(lambda: 0 == grid.on(MASTER, "sh", "-c", ADMIT).status, "the name", NAMES_S)
        let_in(grid, node, JOIN)
        ran = job_on_the_node(grid)
        grid.sh(MASTER, "qmod -d all.q@alpha-n7")
        told(grid, "stop", id=node["id"])
        standby = listed(grid)[0]["state"]
        told(grid, "start", id=node["id"])
        again = reached(grid, node["id"], "running")
        grid.until(lambda: int(grid.sh("alpha-n3", STARTS)) == 2, "the execd to be back")
        grid.sh(MASTER, "qmod -e all.q@alpha-n7")
        ran_again = job_on_the_node(grid)
    finally:
        grid.sh(MASTER, FORGET)
    grid.lab("power", "alpha-n3", "cut")

    assert ("alpha-n7\n", "stopped", "alpha-n7\n") == (ran, standby, ran_again)
    assert node == again
    assert "running" == listed(grid)[0]["state"]


def job_on_the_node(grid: Grid) -> str:
    grid.until(lambda: "- " not in grid.sh(MASTER, "qhost -h alpha-n7 | tail -1"), "a load report")
    submit = "rm -f ran; qsub -sync y -N joined -q all.q@alpha-n7 -b y -j y -o ran hostname >/dev/null"
    return grid.sh(MASTER, f"{submit}; cat ran; rm ran", user="alice")


def test_a_destroyed_node_leaves_nothing_and_the_next_is_new(grid: Grid) -> None:
    first = running(grid, "alpha-n3")
    let_in(grid, first, "touch /var/tmp/kept; sleep 4714 >/dev/null 2>&1 &")
    ask(grid, "destroy", id=first["id"])
    left = traces("alpha-n3")
    sleeping = subprocess.run(["pgrep", "-x", "-f", "sleep 4714"], check=False).returncode
    again = ask(grid, "destroy", id=first["id"])
    second = running(grid, "alpha-n3")
    disk = let_in(grid, second, "ls /var/tmp")

    assert ([], 1, 0, "") == (left, sleeping, again.status, disk)
    assert first["host_key"] != second["host_key"]
    assert first["id"] != second["id"]


def test_there_are_four_nodes_and_no_fifth(grid: Grid) -> None:
    nodes = [told(grid, "create", name=f"node-{number}") for number in range(QUOTA)]
    fifth = ask(grid, "create", name="node-5")
    up = [reached(grid, node["id"], "running") for node in nodes]

    assert QUOTA == len({node["address"] for node in up} & {f"10.77.0.{n}" for n in range(13, 17)})
    assert QUOTA == len({node["host_key"] for node in up})
    assert (69, "power-node: no capacity left: 4 nodes at most\n") == (fifth.status, fifth.err)


@pytest.mark.parametrize(
    ("verb", "wish", "user", "status"),
    [
        ("create", "{}", "root", 2),
        ("create", '{"name": "A B"}', "root", 2),
        ("create", '{"name": "a", "tags": {"a": 1}}', "root", 2),
        ("destroy", "no JSON", "root", 2),
        ("start", '{"id": "lab-0"}', "root", 1),
        ("rent", "{}", "root", 2),
        ("list", "", "alice", 77),
    ],
)
def test_a_wrong_request_gets_an_error_of_one_line(grid: Grid, verb: str, wish: str, user: str, status: int) -> None:
    done = grid.on(MASTER, "/opt/gridlab/power-node", verb, user=user, stdin=wish)

    assert (status, "", 1) == (done.status, done.out, done.err.count("\n")), done


@pytest.mark.parametrize(
    ("fault", "verb", "status"), [("refuse", "create", 75), ("refuse", "list", 75), ("capacity", "create", 69)]
)
def test_a_refused_request_changes_no_node(grid: Grid, fault: str, verb: str, status: int) -> None:
    grid.lab("faults", fault)
    refused = ask(grid, verb, name="alpha-n3")
    grid.lab("faults")

    assert (status, "", 1) == (refused.status, refused.out, refused.err.count("\n"))
    assert [] == listed(grid)


@pytest.mark.parametrize(("fault", "left"), [("hang", 0), ("lost", 1)])
def test_an_answer_that_never_comes_leaves_nothing_or_a_node(grid: Grid, fault: str, left: int) -> None:
    """The caller has to list the nodes. The service survives a client that gave up."""
    grid.lab("faults", fault)
    call = ("timeout", str(LIMIT_S), "/opt/gridlab/power-node", "create")
    done = grid.on(MASTER, *call, stdin='{"name": "alpha-n3"}')
    grid.lab("faults")

    assert (124, "") == (done.status, done.out)
    assert left == len(listed(grid))


def test_lists_and_answers_may_be_wrong(grid: Grid) -> None:
    grid.lab("faults", "lie")
    lie = told(grid, "create", name="alpha-n3")
    grid.lab("faults", "never")
    stuck = told(grid, "create", name="alpha-n4")
    grid.lab("faults", "slow=1")
    slow = told(grid, "create", name="alpha-n5")
    reached(grid, slow["id"], "running")
    whole = listed(grid)
    grid.lab("faults", "others")
    others = listed(grid)
    grid.lab("faults", "partial")
    partial = listed(grid)
    grid.lab("faults", "garbled")
    garbled = ask(grid, "list")

    assert ("running", "pending", "pending") == (lie["state"], stuck["state"], slow["state"])
    assert [stuck["id"], slow["id"]] == [node["id"] for node in whole]
    assert ["pending", "running"] == [node["state"] for node in whole]
    assert whole == others[:2]
    assert ["web-1", "alpha-n99"] == [node["name"] for node in others[2:]]
    assert whole[:1] == partial
    assert 0 == garbled.status
    with pytest.raises(json.JSONDecodeError):
        json.loads(garbled.out)

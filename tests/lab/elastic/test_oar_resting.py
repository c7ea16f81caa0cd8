"""An OAR server as a site of its own: gridbridge's squeeze switches its nodes off and on."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.elastic import rack
from tests.lab.grid import OAR_ALIVE, Grid, of_root
from tests.lab.installed import installed

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

HOST, USER = "gamma-master", "al_gamma"
BALANCE, GRIDBRIDGE = "/opt/gridbridge/bin/gridbridge-balance", "/opt/gridbridge/bin/gridbridge"
NODES = ("gamma-n1", "gamma-n2")
TOML = f"""[site]
cluster = "gamma"
[cluster.gamma]
kind = "oar"
{rack.sections(NODES, max_nodes=3)}"""
AWAY = f"rm -rf {rack.RACK} {rack.SWITCH_AT}; oarproperty -d gb_tags; :"
AS_IT_WAS = "available_upto=2147483647"
OAR_CONF = "/etc/oar/oar.conf"


@pytest.fixture(scope="module")
def grid() -> Iterator[Grid]:
    grid = of_root()
    with installed(grid, HOST):
        yield grid
        grid.sh(HOST, AWAY)


@pytest.fixture
def squeezed(grid: Grid) -> Iterator[Grid]:
    grid.on(HOST, "tee", "/etc/gridbridge/gridbridge.toml", stdin=TOML)
    rack.install_switch(grid, HOST)
    grid.sh(HOST, f"{GRIDBRIDGE} setup balance --apply; rm -f /etc/cron.d/gridbridge-balance")
    rack.make_rack(grid, HOST, NODES)
    yield grid
    grid.on(HOST, "oardel", "--sql", OAR_ALIVE)
    for node in NODES:
        grid.lab("power", node, "on")
        grid.sh(HOST, f"oarnodesetting -h {node} -s Alive -d off -p {AS_IT_WAS}")
    grid.until(lambda: set(states(grid).values()) == {"Alive"}, "gamma's nodes to be alive")
    grid.sh(HOST, f"rm -rf {rack.RACK} /var/lib/gridbridge-admin/*")


def round_(grid: Grid, *, has_plug: bool = True) -> str:
    """Run a balancing cycle; with `has_plug`, switch the nodes as the cycle requested."""
    done = grid.on(HOST, BALANCE, "--apply")
    assert done.status == 0, done
    rack.switch_as_requested(grid, HOST, NODES if has_plug else ())
    return done.out


def kept(grid: Grid) -> dict[str, str]:
    done = grid.on(HOST, GRIDBRIDGE, "balance", "status", "--json")
    told = json.loads(done.out) if done.status == 0 else {"nodes": []}
    return {one["name"]: one["state"] for one in told["nodes"]}


def states(grid: Grid) -> dict[str, str]:
    told = json.loads(grid.sh(HOST, "oarnodes -J -s"))
    return {node: next(iter(some.values())) for node, some in told.items()}


def becomes(grid: Grid, wanted: set[str], *, has_plug: bool = True) -> None:
    def is_so() -> bool:
        round_(grid, has_plug=has_plug)
        return set(kept(grid).values()) == wanted

    grid.until(is_so, f"nodes to be {wanted}", 90)


def properties(grid: Grid, node: str) -> str:
    return grid.sh(HOST, f"oarnodes -J --sql \"network_address='{node}'\"")


def oarsub(grid: Grid, *words: str) -> str:
    in_home = ("sh", "-c", 'export PWD; exec oarsub "$@"', "sh")  # oarsub reads it
    told = grid.on(HOST, *in_home, *words, user=USER).out
    return next(line for line in told.splitlines() if line.startswith("OAR_JOB_ID="))[11:]


def ended(grid: Grid, number: str) -> bool:
    told = grid.sh(HOST, f"oarstat -f -J -j {number}")
    return bool(json.loads(told)[number]["state"] == "Terminated")


@pytest.mark.long
def test_an_oar_node_is_switched_off_and_on_again_when_a_job_needs_it(squeezed: Grid) -> None:
    """One of two idle nodes is enough as reserve. OAR still accepts jobs for both nodes."""
    told = squeezed.sh(HOST, f"{GRIDBRIDGE} squeeze")
    becomes(squeezed, {"ready", "standby"})
    resting = next(name for name, state in kept(squeezed).items() if state == "standby")
    off, seen, marked = rack.power_state(squeezed, HOST, resting), states(squeezed), properties(squeezed, resting)
    dead = squeezed.on(resting, "true").status
    job = oarsub(squeezed, "-l", "/network_address=2,walltime=0:5:0", "sleep 1")
    becomes(squeezed, {"ready"})
    squeezed.until(lambda: ended(squeezed, job), f"job {job} to end on both nodes", 60)

    assert "can be powered off" in told
    assert (off, rack.power_state(squeezed, HOST, resting)) == ("off", "on")
    assert dead
    assert seen[resting].startswith("Absent")
    assert '"gb_tags" : "htools:standby:auto"' in marked
    assert '"available_upto" : 2147483646' in marked
    assert "htools:standby" not in properties(squeezed, resting)
    assert set(states(squeezed).values()) == {"Alive"}


@pytest.mark.long
def test_jobs_keep_their_node_and_none_is_killed(squeezed: Grid) -> None:
    squeezed.sh(HOST, "rm -f go", user=USER)
    until_told = "until [ -e $HOME/go ]; do sleep 1; done"
    jobs = [oarsub(squeezed, "-l", "/resource_id=2,walltime=0:5:0", until_told) for _ in NODES]
    squeezed.until(lambda: len(running(squeezed)) == 2, "two jobs to run")
    round_(squeezed)
    round_(squeezed)
    while_busy = kept(squeezed)
    squeezed.sh(HOST, "touch go", user=USER)
    becomes(squeezed, {"ready", "standby"})

    assert set(while_busy.values()) == {"ready"}
    assert all(ended(squeezed, job) for job in jobs)


def running(grid: Grid) -> list[str]:
    told = json.loads(grid.sh(HOST, "oarstat -f -J") or "{}")
    return [number for number, one in told.items() if one["state"] == "Running"]


@pytest.mark.long
def test_a_node_that_did_not_switch_off_works_again(squeezed: Grid) -> None:
    """OAR calls the node absent and does not contact the node. The node's own sshd shows that it is up."""
    becomes(squeezed, {"ready", "standby"}, has_plug=False)
    squeezed.sh(HOST, f"sed -i '/^\\[squeeze/a target_reserve = 100' {TOML_AT}")
    becomes(squeezed, {"ready"}, has_plug=False)

    assert set(states(squeezed).values()) == {"Alive"}


TOML_AT = "/etc/gridbridge/gridbridge.toml"


HOOKS = """SCHEDULER_NODE_MANAGER_SLEEP_CMD="/opt/gridbridge/oar-hooks/sleep"
SCHEDULER_NODE_MANAGER_WAKE_UP_CMD="/opt/gridbridge/oar-hooks/wake-up"
SCHEDULER_NODE_MANAGER_IDLE_TIME="1"
SCHEDULER_NODE_MANAGER_SLEEP_TIME="1"
SCHEDULER_NODE_MANAGER_WAKEUP_TIME="1"
"""
NOTED = "/var/spool/gridbridge-power"


def test_oar_itself_calls_the_hooks_for_sleep_and_for_waking(squeezed: Grid) -> None:
    """The site's own provider carries out the requests that the hooks record."""
    squeezed.sh(HOST, f"cp -p {OAR_CONF} {OAR_CONF}.test; install -d -m 2777 -o oar {NOTED}")
    squeezed.on(HOST, "tee", "-a", OAR_CONF, stdin=HOOKS)
    try:
        for node in NODES:
            squeezed.sh(HOST, f"oarnodesetting -h {node} -p available_upto=2147483646")
        first = oarsub(squeezed, "-l", "/resource_id=1,walltime=0:5:0", "true")
        asleep = squeezed.until(lambda: noted(squeezed, "sleep"), "OAR to have nodes sleep", 60)
        squeezed.on(HOST, "oardel", first)  # else the next job may wait for it
        squeezed.sh(HOST, f"rm -f {NOTED}/*; oarnodesetting -h gamma-n2 -s Absent -n -d on")
        squeezed.sh(HOST, "oarnodesetting -h gamma-n2 -d off")
        oarsub(squeezed, "-l", "/network_address=2,walltime=0:5:0", "true")
        squeezed.until(lambda: "gamma-n2" in noted(squeezed, "wake"), "OAR to wake gamma-n2", 60)
        done = squeezed.sh(HOST, f"{GRIDBRIDGE} balance power --apply")
        wanted = squeezed.sh(HOST, f"cat {rack.RACK}/gamma-n2.wanted")
    finally:
        squeezed.sh(HOST, f"mv {OAR_CONF}.test {OAR_CONF}; rm -rf {NOTED}")

    assert asleep <= set(NODES)
    assert "gamma-n2: wake" in done
    assert wanted == "on\n"


def noted(grid: Grid, wish: str) -> set[str]:
    return set(grid.on(HOST, "sh", "-c", f"cat {NOTED}/{wish}.* 2>/dev/null").out.split())


@pytest.mark.long
def test_no_node_is_switched_where_oar_saves_energy_itself(squeezed: Grid) -> None:
    """Only one program may switch a node. The plan is still shown."""
    squeezed.sh(HOST, f"cp -p {OAR_CONF} {OAR_CONF}.test")
    squeezed.sh(HOST, f"sed -i 's/^ENERGY_SAVING_INTERNAL=.*/ENERGY_SAVING_INTERNAL=yes/' {OAR_CONF}")
    done = squeezed.on(HOST, BALANCE, "--apply")
    asked = squeezed.on(HOST, "/opt/gridbridge/bin/gridbridge-as-root", "node", "halt", "gamma-n1")
    told = squeezed.sh(HOST, f"{GRIDBRIDGE} squeeze")
    squeezed.sh(HOST, f"mv {OAR_CONF}.test {OAR_CONF}")

    assert done.status != 0
    assert "OAR itself halts and wakes nodes" in done.err
    assert asked.status == 2
    assert "can be powered off" in told
    assert set(states(squeezed).values()) == {"Alive"}

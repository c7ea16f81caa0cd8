"""Clusters of other domains: own files and user names, reached from alpha by ssh only."""

import json
import shlex
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.lab.abreast import abreast as abreast
from tests.lab.grid import Done, Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.long]

FOREIGN = ["gamma", "delta"]
PORTS = {  # where each host listens
    **{"gamma-master": 22, "gamma-n1": 6667, "gamma-n2": 6667},
    **{"delta-master": 22, "delta-n1": 6445},
}
CUT_OFF, OFF = "gamma-n1", "gamma-n2"
WAIT_S = 5  # for a connection, as ssh_config(5) ConnectTimeout
HOLDERS = [("al", "alice"), ("bo", "bob"), ("gb", "gridbridge")]


def mend(grid: Grid) -> None:
    for host in PORTS:
        grid.lab("power", host, "on")
        grid.lab("net", host, "heal")


def ssh(grid: Grid, person: str, login: str, cluster: str, *command: str) -> Done:
    options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={WAIT_S}")
    target = f"{login}_{cluster}@{cluster}-master"
    return grid.on("alpha-master", "ssh", *options, target, *command, user=person)


def reached(grid: Grid, cluster: str, *command: str) -> str:
    done = ssh(grid, "alice", "al", cluster, *command)
    assert done.status == 0, done
    return done.out


def oarsub(grid: Grid, command: str, *options: str) -> str:
    argv = ("oarsub", "-l", "/resource_id=1,walltime=0:5:0", *options, command)
    out = reached(grid, "gamma", shlex.join(argv))
    return out.partition("OAR_JOB_ID=")[2].split()[0]


def oarstat(grid: Grid, *choice: str) -> list[dict[str, object]]:
    """Return OAR's records of a job, or of the jobs of an array."""
    out = reached(grid, "gamma", "oarstat", "-f", "-J", *choice)
    return list(json.loads(out or "{}").values())


def ended(grid: Grid, job: str) -> dict[str, object]:
    return grid.until(
        lambda: [one for one in oarstat(grid, "-j", job) if one["state"] == "Terminated"], f"OAR job {job} to end"
    )[0]


def node_states(grid: Grid, node: str) -> set[str]:
    return set(json.loads(reached(grid, "gamma", "oarnodes -J -s"))[node].values())


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("cluster", FOREIGN)
@pytest.mark.parametrize(("login", "person"), HOLDERS, ids=[person for _, person in HOLDERS])
def test_ssh_admits_a_person_without_a_question(grid: Grid, cluster: str, login: str, person: str) -> None:
    done = ssh(grid, person, login, cluster, "id -un; hostname")

    assert Done(status=0, out=f"{login}_{cluster}\n{cluster}-master\n", err="") == done


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("cluster", FOREIGN)
@pytest.mark.parametrize("login", ["bo", "gb"])
def test_a_key_opens_only_its_holders_account(grid: Grid, cluster: str, login: str) -> None:
    done = ssh(grid, "alice", login, cluster, "true")

    assert done.status == 255
    assert "Permission denied" in done.err


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("cluster", FOREIGN)
def test_root_is_not_let_in(grid: Grid, cluster: str) -> None:
    done = grid.on("alpha-master", "ssh", "-o", "BatchMode=yes", f"{cluster}-master", "true")

    assert done.status == 255


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("cluster", FOREIGN)
def test_a_home_is_shared_only_within_its_domain(grid: Grid, cluster: str) -> None:
    reached(grid, cluster, "touch of_this_domain")
    homes = "ls -d /home/*; ls /home/*/of_this_domain"
    alpha = grid.on("alpha-master", "sh", "-c", homes)
    inside = grid.sh(f"{cluster}-n1", homes).split()

    assert "of_this_domain" not in alpha.out
    assert "/home/alice" in alpha.out
    assert [*(f"/home/{login}_{cluster}" for login, _ in HOLDERS), f"/home/al_{cluster}/of_this_domain"] == inside


@pytest.mark.usefixtures("abreast")
@pytest.mark.parametrize("cluster", FOREIGN)
def test_gridbridge_is_not_installed_in_other_domains(grid: Grid, cluster: str) -> None:
    """A transfer must bring along all programs that it needs at these clusters."""
    seen = grid.on(f"{cluster}-n1", "sh", "-c", "ls -A /opt/gridbridge; id gridbridge")

    assert (1, "") == (seen.status, seen.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    cut: Mapping[str, Done]  # a knock at each host
    healed: Mapping[str, Done]
    ssh_cut: Mapping[str, Done]  # by cluster
    ssh_healed: Mapping[str, Done]
    powered: set[str]  # the states of OFF once it is on again


@pytest.fixture(scope="module")
def lost(grid: Grid) -> Lost:
    """Cut every link at once, then gamma-n1's link alone; switch gamma-n2 off meanwhile."""
    try:
        return lose(grid)
    except BaseException:
        mend(grid)
        raise


def lose(grid: Grid) -> Lost:
    for host in PORTS:
        grid.lab("net", host, "cut")
    cut, ssh_cut = knocked(grid, PORTS), let_in(grid)
    for host in PORTS.keys() - {CUT_OFF}:
        grid.lab("net", host, "heal")
    ssh_healed, healed = let_in(grid), knocked(grid, PORTS.keys() - {CUT_OFF})
    grid.lab("power", OFF, "cut")
    for node in (CUT_OFF, OFF):
        grid.until(lambda n=node: node_states(grid, n) == {"Suspected"}, f"{node} to be suspected")
    grid.lab("power", OFF, "on")
    powered = node_states(grid, OFF)
    grid.lab("net", CUT_OFF, "heal")
    healed |= knocked(grid, [CUT_OFF])
    return Lost(cut=cut, healed=healed, ssh_cut=ssh_cut, ssh_healed=ssh_healed, powered=powered)


def knocked(grid: Grid, hosts: Iterable[str]) -> dict[str, Done]:
    def knock(host: str) -> tuple[str, Done]:
        script = f": <>/dev/tcp/{host}/{PORTS[host]}"
        return host, grid.on("alpha-master", "timeout", "2", "bash", "-c", script)

    with ThreadPoolExecutor() as pool:
        return dict(pool.map(knock, hosts))


def let_in(grid: Grid) -> dict[str, Done]:
    with ThreadPoolExecutor() as pool:
        done = pool.map(lambda cluster: ssh(grid, "alice", "al", cluster, "true"), FOREIGN)
        return dict(zip(FOREIGN, done, strict=True))


@pytest.mark.parametrize("cluster", FOREIGN)
def test_a_cut_link_hangs_ssh_and_heals(lost: Lost, cluster: str) -> None:
    cut, healed = lost.ssh_cut[cluster], lost.ssh_healed[cluster]

    assert (255, 0) == (cut.status, healed.status)
    assert "timed out" in cut.err


@pytest.mark.parametrize("host", PORTS)
def test_every_link_can_be_cut_and_healed(lost: Lost, host: str) -> None:
    """A connection through a cut link hangs, instead of being refused."""
    assert (124, 0) == (lost.cut[host].status, lost.healed[host].status)


def test_a_node_without_power_is_suspected_and_comes_back(grid: Grid, lost: Lost) -> None:
    job = oarsub(grid, "hostname", "-p", f"network_address='{OFF}'")

    assert {"Alive"} == lost.powered
    assert 0 == ended(grid, job)["exit_code"]


@pytest.mark.usefixtures("lost")
def test_a_node_that_is_cut_off_is_suspected_and_heals_by_itself(grid: Grid) -> None:
    grid.until(lambda: node_states(grid, CUT_OFF) == {"Alive"}, f"{CUT_OFF} to be alive")


@pytest.mark.usefixtures("abreast")
def test_a_job_of_delta_runs_on_its_node(grid: Grid) -> None:
    command = "qsub -sync y -b y -j y -o out sh -c \"'hostname; id -un; exit 3'\""
    done = ssh(grid, "alice", "al", "delta", command)
    out = reached(grid, "delta", "cat out; rm out")

    assert 3 == done.status, done
    assert "delta-n1\nal_delta\n" == out


@pytest.mark.usefixtures("abreast")
def test_an_oar_job_runs_on_a_node_and_tells_its_exit_status(grid: Grid) -> None:
    """OAR's exit_code is a wait status: exit status 3 is 768."""
    job = oarsub(grid, "hostname; id -un; exit 3")
    told = ended(grid, job)
    out = reached(grid, "gamma", f"cat OAR.{job}.stdout OAR.{job}.stderr; rm OAR.{job}.*")

    assert 768 == told["exit_code"]
    assert [out.split()[0]] == told["assigned_network_address"]
    assert out.split() in (["gamma-n1", "al_gamma"], ["gamma-n2", "al_gamma"])


def test_each_node_of_gamma_has_two_slots(grid: Grid) -> None:
    array = oarsub(grid, "sleep 300", "--array", "5")

    def nodes_in_use() -> list[str]:
        running = [job for job in oarstat(grid, "--array", array) if job["state"] == "Running"]
        return sorted(str(job["assigned_network_address"]) for job in running)

    full = ["['gamma-n1']"] * 2 + ["['gamma-n2']"] * 2
    try:
        grid.until(lambda: nodes_in_use() == full, "four jobs to run")
        states = sorted(str(job["state"]) for job in oarstat(grid, "--array", array))
    finally:
        reached(grid, "gamma", "oardel", "--array", array)

    assert ["Running"] * 4 + ["Waiting"] == states
    grid.until(lambda: {one["state"] for one in oarstat(grid, "--array", array)} == {"Error"}, "end")
    asleep = grid.on("gamma-n1", "pgrep", "-x", "-f", "sleep 300", user="al_gamma")
    assert "" == asleep.out


@pytest.mark.usefixtures("abreast")
def test_oar_reports_an_end_by_a_program_of_the_user(grid: Grid) -> None:
    """OAR runs the program as that user on the master, by its own sshd, outside the home folder."""
    note = "#!/bin/sh\\ncd ~al_gamma && { id -un; echo $*; } >told.new && mv told.new told.$3\\n"
    reached(grid, "gamma", f"printf '{note}' >note; chmod +x note; rm -f told.*")
    job = oarsub(grid, "true", "--notify", "exec:/home/al_gamma/note mark")
    told = grid.until(lambda: ssh(grid, "alice", "al", "gamma", "cat told.END").out, f"job {job} to tell")

    assert f"al_gamma\nmark {job} END" == told[: told.index("END") + 3]


@pytest.mark.parametrize("cluster", FOREIGN)
def test_ssh_works_over_a_slow_link(grid: Grid, cluster: str) -> None:
    grid.lab("net", f"{cluster}-master", "slow")
    try:
        person = reached(grid, cluster, "id -un")
    finally:
        grid.lab("net", f"{cluster}-master", "heal")

    assert f"al_{cluster}\n" == person


def test_gamma_comes_back_after_its_master_lost_power(grid: Grid) -> None:
    """The database is killed with the host, and still has its jobs afterwards."""
    before = oarsub(grid, "exit 5")
    ended(grid, before)
    grid.lab("power", "gamma-master", "cut")
    grid.lab("power", "gamma-master", "on")
    after = oarsub(grid, "true")

    assert 5 << 8 == ended(grid, before)["exit_code"]
    assert 0 == ended(grid, after)["exit_code"]

"""Workflow programs for Grid Engine use a transfer queue like any other queue."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.agents import LAB
from tests.lab.grid import ROOT, Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]

HOST = "alpha-master"
FOLDER = "~/clients"
PROGRAMS = Path(__file__).parent / "clients"
AT = "/opt/gridbridge/clients"  # every host of alpha and beta has it
PACKAGES = ("snakemake<10", "snakemake-executor-plugin-cluster-generic<2", "parsl>=2024", "dask-jobqueue<0.10")
SNAKEMAKE = (
    f"PATH={AT}/bin:$PATH snakemake --executor cluster-generic --jobs 2 --latency-wait 60"
    " --cluster-generic-submit-cmd 'qsub -terse -q transfer-beta -cwd -o /dev/null -j y'"
)


@pytest.fixture(scope="module")
def clients(grid: Grid) -> Iterator[Grid]:
    """Install the programs for all hosts of both clusters."""
    opt = subprocess.run([LAB, "path", "opt"], check=True, capture_output=True, text=True).stdout
    venv = Path(opt.strip()) / "clients"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    pip = [ROOT / ".venv/bin/pip", "--python", venv / "bin/python3", "install", "--quiet"]
    subprocess.run([*pip, "--root-user-action=ignore", *PACKAGES], check=True)
    grid.sh(HOST, f"grep -rlI '^#!{venv}/' {AT}/bin | xargs sed -i '1s|{venv}|{AT}|'")
    grid.sh(HOST, f"rm -rf {FOLDER} && mkdir {FOLDER}", user="alice")
    yield grid
    grid.sh(HOST, f"rm -rf {FOLDER}", user="alice")
    subprocess.run(["rm", "-rf", venv], check=True)


def run(grid: Grid, program: str) -> list[list[object]]:
    script = f"cd {FOLDER} && PATH={AT}/bin:$PATH exec python3 - 2>{program}.err"
    text = (PROGRAMS / program).read_text()
    done = grid.on(HOST, "sh", "-c", script, user="alice", stdin=text, timeout_s=240)
    assert done.status == 0, grid.sh(HOST, f"tail -n 30 {FOLDER}/{program}.err", user="alice")
    found = json.loads(done.out)
    assert isinstance(found, list)
    return found


def clusters(hosts: list[str]) -> set[str]:
    return {host.partition("-")[0] for host in hosts}


def test_a_snakemake_workflow_runs_through_a_transfer_queue(clients: Grid) -> None:
    rules = (PROGRAMS / "Snakefile").read_text()
    script = f"cd {FOLDER} && cat >Snakefile && {SNAKEMAKE} >snake.out 2>&1"
    done = clients.on(HOST, "sh", "-c", script, user="alice", stdin=rules, timeout_s=240)
    assert done.status == 0, clients.sh(HOST, f"tail -n 30 {FOLDER}/snake.out", user="alice")
    told = clients.sh(HOST, f"cd {FOLDER} && cat sum.txt hosts.txt", user="alice").split()

    assert ["1", "2"] == told[:2]
    assert 3 == len(told[2:])
    assert {"beta"} == clusters(told[2:])


@pytest.mark.parametrize("program", ["parsl_program.py", "dask_program.py"])
def test_a_program_starts_its_workers_through_a_transfer_queue(clients: Grid, program: str) -> None:
    told = run(clients, program)

    assert [1, 2] == [number for number, _ in told]
    assert {"beta"} == clusters([str(host) for _, host in told])

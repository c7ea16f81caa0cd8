"""The demo's access to its clusters: the lab's, as alice, or embedded ones, as the caller."""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

LAB = str(Path(__file__).resolve().parent / "lab")
BETA = "SGE_CELL=beta SGE_QMASTER_PORT=6454 SGE_EXECD_PORT=6455"
NOTHING = '{"alarm": "gridbridge status fails", "queues": [], "transfers": []}'
FOLDERS = "/mnt"  # lab/apart puts a filesystem of our own there
PYTHON = "/opt/gridbridge/venv/bin/python3"
EMBEDDED = (PYTHON, "-I", "-m", "gridbridge.batch.embedded")
SITE = "/opt/gridbridge/conf/embedded.toml"
LAB_NEXT = """
The lab stays up. Go on by hand:
  lab/lab on alpha-master -u alice -- qsub -b y -l remote=true hostname
  lab/lab on alpha-master -u alice -- gridbridge status
  lab/lab on alpha-master -u alice -- gridbridge why {job}
  lab/lab down"""
FOLDERS_NEXT = """
Both clusters and all that gridbridge had are gone again. docs/tutorials/transfer.md shows such a site
by hand; as root, make demo does the same with two Grid Engine clusters in a lab that stays up."""

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job in alpha's list."""

    state: str
    queue: str  # with its host; empty while it waits

    @property
    def is_put_back(self) -> bool:
        """Say whether a job waits to be started again (Rq; sge_status(5))."""
        return "R" in self.state and "q" in self.state


class Grid(Protocol):
    """Alpha with a transfer queue to beta, as one person uses it."""

    person: str
    run_s: int  # how long a job runs
    next: str  # what to tell at the end

    def submit(self, scripts: Sequence[str]) -> list[str]:
        """Submit jobs and return their numbers."""
        ...

    def look(self) -> tuple[dict[str, Row], Report]:
        """Return what alpha lists, and what gridbridge tells."""
        ...

    def do(self, verb: str, job: str) -> None:
        """Delete, suspend or resume a job."""
        ...

    def record(self, job: str) -> dict[str, str]:
        """Return a job's exit status as alpha accounts for it."""
        ...

    def remote_record(self, job: str, cluster: str, number: str) -> dict[str, str]:
        """Return the exit status, host and account of a job's run at another cluster."""
        ...


class Lab:
    """The lab's alpha and beta: Grid Engine, as alice on alpha's submit host."""

    person, run_s, next = "alice", 15, LAB_NEXT

    def submit(self, scripts: Sequence[str]) -> list[str]:
        """Submit by qsub."""
        lines = (
            f"qsub -terse -N flood{n} -j y -o /dev/null -b y sh -c \"'{script}'\""
            for n, script in enumerate(scripts, 1)
        )
        return re.findall(r"^\d+$", _as_alice("; ".join(lines)), re.MULTILINE)

    def look(self) -> tuple[dict[str, Row], Report]:
        """Ask qstat and gridbridge."""
        listed, _, report = _as_alice("qstat; echo ===; gridbridge status --json").partition("===\n")
        rows = [line.split() for line in listed.splitlines()[2:]]
        found = {row[0]: Row(state=row[4], queue=row[7] if "@" in row[7] else "") for row in rows}
        return found, json.loads(report or NOTHING)

    def do(self, verb: str, job: str) -> None:
        """Do it by qdel or qmod."""
        program = {"delete": "qdel", "suspend": "qmod -sj", "resume": "qmod -usj"}[verb]
        _as_alice(f"{program} {job}")

    def record(self, job: str, of: str = "") -> dict[str, str]:
        """Ask qacct; wait for the record shortly."""
        ask = f"{of} qacct -j {job}"
        script = f"for n in $(seq 20); do {ask} && exit; sleep 0.5; done 2>/dev/null"
        record = _as_alice(script).split("=" * 62)[-1]
        rows = (line.split() for line in record.splitlines())
        return {row[0]: row[1] for row in rows if len(row) > 1}

    def remote_record(self, job: str, cluster: str, number: str) -> dict[str, str]:
        """Ask beta's own qacct; of a cluster where alice can't ask, qacct_remote."""
        if cluster == "beta":
            return self.record(number, of=BETA)
        told = json.loads(_as_alice(f"qacct_remote -j {job} --json 2>/dev/null") or '{"tasks": []}')
        runs = (run for task in told["tasks"] for run in task["remote"])
        if (run := _last(runs, cluster)) is None:
            return {}
        status = str(run["exit_status"])
        return {"exit_status": status, "hostname": run["host"], "account": run["transfer"]}


class Folders:
    """Two embedded clusters of the caller on this machine."""

    next = FOLDERS_NEXT

    def __init__(self) -> None:
        """Make the whole site; the load sensor starts the service, as it does for an execd.

        How long that takes says how long a job has to run, so that a busy machine shows all, too.
        """
        begun = time.monotonic()
        self.person = pwd.getpwuid(os.getuid()).pw_name
        shutil.copy(SITE, "/etc/gridbridge/gridbridge.toml")
        for cluster in ("alpha", "beta"):
            _embedded(cluster, "create", "--slots=4")
        queue = ("--slots=4", "--remote=beta", "--pending-limit=4")
        _embedded("alpha", "queue", "transfer-beta", *queue)
        subprocess.run(["/opt/gridbridge/sge-methods/sensor"], input=b"\n", check=False,
                       stdout=subprocess.DEVNULL, cwd="/")  # fmt: skip
        self.run_s = round(8 + 6 * (time.monotonic() - begun))

    def submit(self, scripts: Sequence[str]) -> list[str]:
        """Submit by the cluster's program."""
        answers = (
            _embedded("alpha", "submit", f"--name=flood{n}", stdin=f"{script}\n") for n, script in enumerate(scripts, 1)
        )
        return [answer.strip() for answer in answers]

    def look(self) -> tuple[dict[str, Row], Report]:
        """Ask the cluster's program and gridbridge."""
        argv = [PYTHON, "-I", f"{Path(PYTHON).parent}/gridbridge", "status", "--json"]
        report = subprocess.run(argv, capture_output=True, check=False, text=True).stdout
        told: dict[str, Any] = json.loads(report or NOTHING)
        for one in told["transfers"]:
            one["transfer"]["remote_host"] = "beta"
        return {job["id"]: _row(job) for job in _blocks(_embedded("alpha", "list"))[1:]}, told

    def do(self, verb: str, job: str) -> None:
        """Do it by the cluster's program."""
        _embedded("alpha", verb, job)

    def record(self, job: str) -> dict[str, str]:
        """Ask the cluster's program."""
        return self.remote_record("", "alpha", job)

    def remote_record(self, job: str, cluster: str, number: str) -> dict[str, str]:
        """Ask the cluster's program; a signal is told as qacct does."""
        del job  # its number there is enough
        found = _blocks(_embedded(cluster, "ended", number))
        record = dict(found[0]) if found else {}
        if "signal" in record:
            record["exit_status"] = str(128 + int(record["signal"]))
        return record | {"hostname": cluster}


def _last(runs: Iterable[Mapping[str, Any]], cluster: str) -> Mapping[str, Any] | None:
    return next((run for run in reversed([*runs]) if run["cluster"] == cluster), None)


def _row(job: Mapping[str, str]) -> Row:
    queue = job.get("queue", "embedded") + "@alpha" if "q" not in job["state"] else ""
    return Row(state=job["state"], queue=queue)


def _blocks(answer: str) -> list[dict[str, str]]:
    blocks = answer.removesuffix(".\n").split("\n\n")
    rows = [[line.partition("=") for line in block.splitlines()] for block in blocks]
    return [{key: value for key, _, value in row} for row in rows if row]


def _embedded(cluster: str, *words: str, stdin: str = "") -> str:
    argv = (*EMBEDDED, f"{FOLDERS}/{cluster}", *words)
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False, text=True)
    if done.returncode:
        print(f"{cluster}: {done.stderr.strip()}", file=sys.stderr)
    return done.stdout


def _as_alice(script: str) -> str:
    argv = (LAB, "on", "alpha-master", "-u", "alice", "--", "sh", "-c", script)
    done = subprocess.run(argv, capture_output=True, timeout=90, check=False, text=True)
    return done.stdout

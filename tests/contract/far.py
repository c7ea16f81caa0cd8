"""A remote cluster for the contract suite: an adapter's two modules, and a folder for the jobs' files."""

import copy
import importlib
import itertools
import os
import pwd
import sys
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome, JobSubmissionResult
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.job_request import JobRequest, JobSpec
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer_route import (
    EmbeddedClusterAccessSettings,
    GridEngineCellAccessSettings,
    OarServerAccessSettings,
    SshLogin,
)
from tests.contract import resident
from tests.contract.resident import HOST
from tests.contract.waiting import PAUSE_S, until
from tests.lab.grid import Grid

UNKNOWN = "9999998"  # below Grid Engine's largest job number
TIMEOUT_S = 15.0
AT_ONCE = 3  # simultaneous calls of a test with many calls
API, LOGIN_FILE = "https://gamma-master:6669/oarapi", ".gridbridge-rest.toml"
FRONTEND = "gamma-master"  # alpha-master reaches gamma-master only by ssh

T = TypeVar("T")

numbers = itertools.count(1)


class EmbeddedReach:
    pause_s = PAUSE_S

    def __init__(self, path: Path, slots: int, python: str = sys.executable) -> None:
        self.person = pwd.getpwuid(os.getuid()).pw_name
        self.folder = str(path / "jobs")
        self.where = EmbeddedClusterAccessSettings(folder=str(path / "cluster"), python=python, timeout_s=TIMEOUT_S)
        self._path, self._slots = path, slots

    def create(self) -> None:
        os.makedirs(self.folder)
        argv = (self.where.python, "-I", "-m", "gridbridge.batch.embedded", self.where.folder)
        os.spawnv(os.P_WAIT, argv[0], (*argv, "create", f"--slots={self._slots}"))

    def call(self, half: str, name: str, *arguments: object, **options: object) -> Any:
        module = importlib.import_module(f"gridbridge.batch.embedded.{half}")
        return getattr(module, name)(self.where, *arguments, **options)

    def sh(self, script: str) -> str:
        with os.popen(f"cd {self.folder} && {{ {script}\n}}") as output:
            return output.read()

    def out_of_reach(self) -> "EmbeddedReach":
        """Return the cluster with a missing program."""
        return EmbeddedReach(self._path, self._slots, python="/no/python")


class LabReach:
    """A real cluster of the lab, used by the real client programs on a host of alpha."""

    def __init__(
        self, grid: Grid, caller: str, where: GridEngineCellAccessSettings | OarServerAccessSettings, folder: str
    ) -> None:
        self.person = where.account_of_user(caller)
        self.folder = folder
        self.pause_s = 0.5 if where.has_own_accounts else PAUSE_S  # a query by ssh takes about as long
        self._grid = grid
        self._caller = caller
        self._where = where
        self._adapter = "oar" if isinstance(where, OarServerAccessSettings) else "gridengine"

    def call(self, half: str, name: str, *arguments: object, **options: object) -> Any:
        module = f"gridbridge.batch.{self._adapter}.{half}"
        return resident.call(self._caller, module, name, self._where, *arguments, **options)

    def sh(self, script: str) -> str:
        """Run a shell script on the host with the jobs' files, as the files' owner."""
        host = FRONTEND if isinstance(self._where, OarServerAccessSettings) else HOST
        host = self._where.login.host if self._where.login else host
        line = f"cd {self.folder} && {{ {script}\n}}"
        return self._grid.on(host, "sh", "-c", line, user=self.person).out

    def out_of_reach(self) -> "LabReach":
        """Return the cluster with a port at which no qmaster or sshd listens."""
        where, login = copy.copy(self._where), copy.copy(self._where.login)
        if login:
            login.port, where.login = "6499", login
        elif isinstance(where, GridEngineCellAccessSettings):
            where.qmaster_port = "6499"
        else:
            where.api = where.api.replace("6669", "6499")
        return LabReach(self._grid, self._caller, where, self.folder)

    def within(self, timeout_s: float) -> "LabReach":
        return LabReach(self._grid, self._caller, self._where.with_time_limit(timeout_s), self.folder)


Reach: TypeAlias = EmbeddedReach | LabReach


def beta() -> GridEngineCellAccessSettings:
    return _cell("beta", "6454", "6455")


def delta(account: str) -> GridEngineCellAccessSettings:
    return _cell("delta", "6444", "6445", SshLogin(host="delta-master", user=account))


def gamma(account: str) -> OarServerAccessSettings:
    return OarServerAccessSettings(login=SshLogin(host=FRONTEND, user=account), timeout_s=TIMEOUT_S)


def gamma_by_rest(account: str, caller: str) -> OarServerAccessSettings:
    """Return access by OAR's REST interface, with a login of the caller that may name any account."""
    return OarServerAccessSettings(
        api=API, api_login=f"/home/{caller}/{LOGIN_FILE}", api_account=account, timeout_s=TIMEOUT_S
    )


def write_rest_login(grid: Grid, caller: str) -> None:
    """Give a user of alpha the lab's login to gamma's REST interface, which elsewhere only root has."""
    authority = grid.sh(FRONTEND, "cat /etc/oar/api/authority.pem")
    login = f'user = "gridbridge"\npassword = "gridlab"\nauthority = "/home/{caller}/{caller}.pem"\n'
    for name, content in ((f"{caller}.pem", authority), (LOGIN_FILE, login)):
        write = f"umask 077; cat >~/{name}.new.$$ && mv ~/{name}.new.$$ ~/{name}"
        done = grid.on(HOST, "sh", "-c", write, user=caller, stdin=content)
        assert done.status == 0, done


def _cell(name: str, qmaster_port: str, execd_port: str, login: SshLogin | None = None) -> GridEngineCellAccessSettings:
    return GridEngineCellAccessSettings(
        root="/var/lib/gridengine",
        cell=name,
        qmaster_port=qmaster_port,
        execd_port=execd_port,
        binaries="/usr/lib/gridengine",
        timeout_s=TIMEOUT_S,
        login=login,
    )


class Far:
    def __init__(self, reach: Reach, slots: int = 4, others: Reach | None = None) -> None:
        self.reach = reach
        self.slots = slots
        self.others = others  # the cluster as used by another user; None for an embedded cluster
        self.accounts: dict[str, str] = {}  # accounts of submitted jobs, by job id

    def hot(self, name: str, *arguments: object, **options: object) -> Any:
        """Call a function of the adapter's module `job_submission_and_control`."""
        return self.reach.call("job_submission_and_control", name, *arguments, **options)

    def cold(self, name: str, *arguments: object) -> Any:
        """Call a function of the adapter's module `status`."""
        return self.reach.call("status", name, *arguments)

    def new_name(self) -> str:
        return f"gb.contract.{os.getpid()}.{next(numbers)}.1"

    def submit(self, script: str | bytes, **options: object) -> str:
        """Submit a held job and return its id."""
        answer = self.answer(script, **options)
        assert answer.result == JobSubmissionOutcome.ACCEPTED, answer.reason
        return answer.remote_id

    def answer(self, script: str | bytes, **options: object) -> JobSubmissionResult:
        name = str(options.pop("name", "") or self.new_name())
        text = script.encode() if isinstance(script, str) else script
        plain = JobSpec(transfer=name, request=JobRequest(), cwd=self.reach.folder, script=text)
        told: JobSubmissionResult = self.hot("submit_held_job", plain.with_changes(**options))
        if told.remote_id:
            self.accounts[told.remote_id] = name
        return told

    def start(self, script: str | bytes, **options: object) -> str:
        job = self.submit(script, **options)
        self.hot("rename_and_release", job, "work")
        return job

    def start_all(self, scripts: Iterable[str | bytes]) -> list[str]:
        with ThreadPoolExecutor(AT_ONCE) as calls:
            jobs = list(calls.map(self.submit, scripts))
            list(calls.map(lambda job: self.hot("rename_and_release", job, "work"), jobs))
        return jobs

    def ends(self, jobs: Collection[str]) -> dict[str, JobEnd]:
        """Wait until several jobs have ended, by one query for all; return their ends by job id."""
        numbers = set(map(int, jobs))
        self._until(lambda: not numbers & set(self.snapshot(*jobs).jobs), f"{jobs} to go", 180)
        with ThreadPoolExecutor(AT_ONCE) as calls:
            return dict(calls.map(lambda job: (job, self.end(job)), jobs))

    def state(self, job: str) -> JobState:
        found: JobState = self.hot("query_job_state", job)
        return found

    def until_running(self, job: str) -> None:
        self._until(lambda: self.state(job).has_begun, f"job {job} to run")

    def until_gone(self, job: str) -> None:
        self._until(lambda: not self.state(job).is_listed, f"job {job} to be gone")

    def end(self, job: str) -> JobEnd:
        return self._until(lambda: self.maybe_end(job), f"the end of job {job}")

    def maybe_end(self, job: str) -> JobEnd | None:
        """Return a job's end, or None if the end is still unknown."""
        end = self.cold("query_job_end", int(job), self.accounts[job])
        assert end is None or isinstance(end, JobEnd)
        return end

    def snapshot(self, *wanted: str) -> ClusterSnapshot:
        seen, _ = self.cold("query_cluster_snapshot", "far", frozenset(map(int, wanted)))
        assert isinstance(seen, ClusterSnapshot)
        return seen

    def read(self, name: str) -> str:
        """Return the content of a file in the jobs' folder; empty if the file is missing."""
        return self.reach.sh(f"cat {name} 2>/dev/null || :")

    def delete_all(self) -> None:
        if not (listed := self._listed()):
            return
        with ThreadPoolExecutor(AT_ONCE) as calls:
            list(calls.map(lambda job: self.hot("delete_job", str(job)), listed))
        self._until(lambda: not self._listed(), "our jobs to be gone")

    def _until(self, look: Callable[[], T], what: str, limit_s: float = 60) -> T:
        return until(look, what, limit_s, self.reach.pause_s)

    def _listed(self) -> set[int]:
        ours = set(map(int, self.accounts))
        return ours & set(self.snapshot(*self.accounts).jobs) if ours else ours

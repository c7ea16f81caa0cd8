"""An embedded cluster in a test's folder, whose programs tests can kill at any function call."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gridbridge.batch.embedded import embedded_job_keeper
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJobEnd, EmbeddedJobRequest
from gridbridge.batch.embedded.embedded_job_store import EmbeddedJobStore
from tests.contract.waiting import until

PROGRAM = (sys.executable, "-I", "-m", "gridbridge.batch.embedded")
KILLED = """
import os, runpy, signal, sys
last, calls = int(sys.argv.pop(1)), 0
VALUES = "encode_text_as_bytes", "decode_from_sqlite"
def count(frame, event, _):
    global calls
    is_ours = frame.f_globals.get("__name__", "").startswith("gridbridge.batch.embedded")
    if is_ours and frame.f_code.co_name not in VALUES:
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
from gridbridge.batch.embedded import __main__ as program
sys.setprofile(count)
sys.exit(program.main())
"""


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Site:
    """An embedded cluster, used through its program, or in this process where the program is too slow."""

    def __init__(self, path: Path, slots: int) -> None:
        self.path = path
        self.folder = str(path / "cluster")
        self.ran = path / "ran"
        self.run("create", f"--slots={slots}")
        self.database = EmbeddedJobStore(self.folder)

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        argv = (*PROGRAM, self.folder, *words)
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)

    def run_killed(self, after: int, *words: str, stdin: str = "") -> bool:
        """Run the program and kill it at its function call number `after`; say whether the program was killed."""
        argv = (sys.executable, "-I", "-c", KILLED, str(after), self.folder, *words)
        done = subprocess.run(argv, input=stdin.encode(), capture_output=True, check=False)
        return done.returncode == -signal.SIGKILL

    def add(self, script: str, **values: Any) -> int:
        """Add a job or array without starting a keeper; `values` are fields of the request."""
        usual = {"name": "job", "account": values.get("name", "job"), "shell": "/bin/sh", "slots": 1, "held": False}
        files = {"cwd": str(self.path), "output": str(self.path / "output"), "script": script.encode()}
        request = usual | files | values
        return self.database.add_job(EmbeddedJobRequest(**request), "me")

    def add_noting(self) -> int:
        """Add a job that writes its id to the file `ran`."""
        return self.add(f'echo "$JOB_ID" >>{self.ran}\n')

    def times_run(self, job: int) -> int:
        return self.ran.read_text().split().count(str(job)) if self.ran.exists() else 0

    def look(self) -> None:
        """Do what each command of the program does before and after its verb."""
        self.database.end_or_requeue_lost_jobs()
        embedded_job_keeper.start_embedded_keeper_if_needed(self.database)

    def end(self, job: int) -> EmbeddedJobEnd:
        def ended() -> tuple[str, EmbeddedJobEnd] | None:
            self.look()
            return self.database.job_end(job)

        return until(ended, f"job {job} to end")[1]

    def rest(self) -> None:
        """Wait until no keeper runs; a keeper whose job has ended may start the next job."""
        until(lambda: not any(map(self.is_keeper, os.listdir("/proc"))), "all keepers to end")

    def is_keeper(self, pid: int | str) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return False
        return self.folder.encode() in words and b"keep" in words

    def until_running(self, job: int) -> int:
        return until(lambda: self.database.live_job(job).pid, f"job {job} to run")

    def keeper_of(self, job: int) -> int:
        return parent_of(self.until_running(job))

    def kill_keeper(self, job: int) -> None:
        """Kill a job's keeper, and wait until the keeper's lock is free."""
        pid = self.keeper_of(job)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not self.database.keepers.is_job_locked(job), "the keeper's lock to be free")

    def empty(self) -> None:
        for job in self.database.live_jobs():
            self.run("delete", str(job.id))
        until(lambda: self.look() or not self.database.live_jobs(), "all jobs to be gone")

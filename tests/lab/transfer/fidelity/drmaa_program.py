"""A typical DRMAA program: it submits a job, suspends and resumes it, and waits for its end.

usage: drmaa_program.py NAME [QSUB OPTION ...]; it runs on a lab host and prints JSON: the states of
the job in their order, the job's host and its exit status.
"""

import json
import sys
import time
from pathlib import Path

import drmaa

LIMIT_S = 60.0
JOB = "hostname >$JOB_NAME.ran; until [ -e $JOB_NAME.go ]; do sleep 0.2; done; exit 7"


class Job:
    """A job, and all states in which it was observed."""

    def __init__(self, session: drmaa.Session, name: str, options: list[str]) -> None:
        template = session.createJobTemplate()
        template.jobName = name
        template.remoteCommand = "/bin/sh"
        template.args = ["-c", JOB]
        template.nativeSpecification = " ".join(("-o /dev/null -j y -b y -w n", *options))
        self._session = session
        self._id = session.runJob(template)
        self.seen: list[str] = []

    def look(self) -> str:
        """Ask for the job's state, and record a changed state."""
        state = str(self._session.jobStatus(self._id))
        if self.seen[-1:] != [state]:
            self.seen.append(state)
        return state

    def ask(self, action: str) -> None:
        """Suspend or resume the job."""
        self._session.control(self._id, action)

    def status(self) -> int:
        """Wait for the job's end, and return its exit status."""
        return int(self._session.wait(self._id, int(LIMIT_S)).exitStatus)


def until(job: Job, state: str, also: Path | None = None) -> None:
    """Poll the job until it is in a state and until a file exists."""
    limit = time.monotonic() + LIMIT_S
    while job.look() != state or (also and not _text(also)):
        assert time.monotonic() < limit, f"waited for {state}; seen: {job.seen}"
        time.sleep(0.1)


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def main(name: str, *options: str) -> None:
    """Submit, suspend, resume and wait for a job."""
    with drmaa.Session() as session:
        job, ran = Job(session, name, list(options)), Path(f"{name}.ran")
        until(job, drmaa.JobState.RUNNING, ran)
        job.ask(drmaa.JobControlAction.SUSPEND)
        until(job, drmaa.JobState.USER_SUSPENDED)
        job.ask(drmaa.JobControlAction.RESUME)
        until(job, drmaa.JobState.RUNNING)
        Path(f"{name}.go").touch()
        told = {"states": job.seen, "host": _text(ran), "status": job.status()}
        sys.stdout.write(json.dumps(told))


main(*sys.argv[1:])

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
        state = str(self._session.jobStatus(self._id))
        if self.seen[-1:] != [state]:
            self.seen.append(state)
        return state

    def ask(self, action: str) -> None:
        self._session.control(self._id, action)

    def status(self) -> int:
        return int(self._session.wait(self._id, int(LIMIT_S)).exitStatus)


def until(job: Job, state: str, also: Path | None = None) -> None:
    """Poll the job until the job is in a state, and until the file `also` exists."""
    limit = time.monotonic() + LIMIT_S
    while job.look() != state or (also and not _text(also)):
        assert time.monotonic() < limit, f"waited for {state}; seen: {job.seen}"
        time.sleep(0.1)


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def main(name: str, *options: str) -> None:
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

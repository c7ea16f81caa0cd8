"""A site of embedded clusters without root, made by lab/apart, and commands to query it."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gridbridge.batch.embedded.embedded_program_calls import (
    PrintedEmbeddedJob,
    PrintedEmbeddedJobEnd,
    parse_embedded_cluster_and_jobs,
    parse_embedded_job_ends,
)

ROOT = Path(__file__).resolve().parents[1]
NOBODY = "65534"
BECOME = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
PYTHON = "/opt/gridbridge/venv/bin/python3"
MARK = "--- status"
LIMIT_S = 90
T = TypeVar("T")


@pytest.fixture
def apart() -> tuple[str, ...]:
    """Return the command prefix for a program without rights; skip if no user namespace can be made."""
    become = BECOME if os.getuid() == 0 else ()
    argv = (*become, "unshare", "--user", "--map-root-user", "test", "-r", str(ROOT / "setup.cfg"))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        pytest.skip(f"no user namespace here, or {ROOT} is closed to others: {done.stderr}")
    return become


class Apart:
    """An unprivileged shell in its own namespaces."""

    def __init__(self, become: tuple[str, ...]) -> None:
        argv = (*become, str(ROOT / "lab/apart"), "/bin/sh")
        self._shell = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")

    def close(self) -> None:
        self._shell.communicate(timeout=30)

    def type(self, script: str) -> tuple[str, str]:
        """Run a command; return its combined output and its exit status."""
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{{ {script}\n}} </dev/null 2>&1; echo '{MARK}' $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        while (line := self._shell.stdout.readline()) and MARK not in line:
            lines.append(line)
        last, _, status = line.partition(MARK)
        return "".join(lines) + last, status.strip()

    def sh(self, script: str) -> str:
        """Run a script, which must succeed, and return its output."""
        out, status = self.type(f"( cd /mnt\n{script}\n)")
        assert status == "0", f"{script}: {status}: {out}"
        return out


class Site(Apart):
    """Embedded clusters alpha and beta; alpha has a transfer queue, which `pending_limit` never closes."""

    def __init__(self, become: tuple[str, ...], home_slots: int = 0, away_slots: int = 4) -> None:
        super().__init__(become)
        self.sh("cp /opt/gridbridge/conf/embedded.toml /etc/gridbridge/gridbridge.toml")
        self.embedded("alpha", f"create --slots={home_slots}")
        self.embedded("beta", f"create --slots={away_slots}")
        self.embedded("alpha", "queue transfer-beta --slots=4 --remote=beta")
        self.sh("echo | /opt/gridbridge/sge-methods/sensor >/dev/null")

    def embedded(self, cluster: str, words: str) -> str:
        return self.sh(f"{PYTHON} -I -m gridbridge.batch.embedded /mnt/{cluster} {words}")

    def submit(self, script: str, *options: str) -> str:
        asked = f"submit --name=task --output=/mnt/out --cwd=/mnt {' '.join(options)}"
        return self.embedded("alpha", f"{asked} <<'END'\n{script}\nEND").strip()

    def job(self, cluster: str, number: str = "") -> PrintedEmbeddedJob | None:
        listed = parse_embedded_cluster_and_jobs(self.embedded(cluster, "list").encode())[1]
        return next((job for job in listed if number in ("", job.id)), None)

    def letters(self, cluster: str, number: str = "") -> str:
        """Return a job's state letters, empty when it is not listed."""
        job = self.job(cluster, number)
        return job.state if job else ""

    def end(self, cluster: str, number: str) -> PrintedEmbeddedJobEnd | None:
        return next(iter(parse_embedded_job_ends(self.embedded(cluster, f"ended {number}").encode())), None)

    def until(self, look: Callable[[], T], what: str) -> T:
        """Wait until `look` returns a true value; fail with the state of the site."""
        deadline = time.monotonic() + LIMIT_S
        while not (seen := look()):
            assert time.monotonic() < deadline, f"waited for {what}:\n{self.all()}"
            time.sleep(0.1)
        return seen

    def until_away(self) -> None:
        self.until(lambda: self.letters("beta") == "r", "the job to run at beta")

    def until_ended(self, number: str) -> PrintedEmbeddedJobEnd:
        end = self.until(lambda: self.end("alpha", number), f"job {number} to end at alpha")
        assert end
        return end

    def all(self) -> str:
        program = f"{PYTHON} -I -m gridbridge.batch.embedded"
        gridbridge = f"{PYTHON} -I {Path(PYTHON).parent}/gridbridge"
        return self.sh(
            f"{program} alpha list; {program} beta list; {gridbridge} status;"
            f"{gridbridge} why 1; tail -n 20 /var/lib/gridbridge/poller.log; cat alpha/log;"
            "cat alpha/active/*/tmpdir/.gridbridge/log; true"
        )

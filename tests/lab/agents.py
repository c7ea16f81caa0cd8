"""Agent processes that stay on the lab's hosts while the tests run, so that a command starts fast."""

import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB = str(ROOT / "lab" / "lab")
AGENT = "/mnt/checkout/lab/agent"  # lab/gridlab/agent.py
GRACE_S = 15.0  # beyond a command's own limit

Process = subprocess.Popen[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    status: int
    out: str
    err: str


class Gone(Exception):
    """An agent process ended, or did not answer in time."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Residents:
    """Agent processes that answer a line with a line. When all are busy, a new process starts."""

    def __init__(self, command: Callable[[str], tuple[str, ...]]) -> None:
        self._command = command  # of `lab on`, for a kind
        self._idle: dict[str, list[Process]] = defaultdict(list)
        self._lock = threading.Lock()

    def ask(self, kind: str, line: str, limit_s: float) -> str:
        """Return the answer of an idle agent process of that kind, or raise Gone."""
        process = self._take(kind)
        answer = _ask(process, line, limit_s)
        if not answer:
            _, words = process.communicate()
            raise Gone(process.returncode, words)
        with self._lock:
            self._idle[kind].append(process)
        return answer

    def _take(self, kind: str) -> Process:
        """Return an idle agent process of a host; drop processes that have ended."""
        with self._lock:
            while idle := self._idle[kind]:
                process = idle.pop()
                if process.poll() is None:
                    return process
                process.communicate()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([LAB, "on", *self._command(kind)], text=True, **streams)


def _ask(process: Process, line: str, limit_s: float) -> str:
    assert process.stdin
    assert process.stdout
    watch = threading.Timer(limit_s, process.kill)
    watch.start()
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except BrokenPipeError:
        return ""
    finally:
        watch.cancel()


class Agents:
    def __init__(self) -> None:
        self._residents = Residents(lambda host: (host, "--", AGENT))

    def run(self, host: str, argv: tuple[str, ...], user: str, stdin: str, limit_s: float) -> Done:
        """Run a command on a host; raise subprocess.TimeoutExpired if the command takes too long.

        For a host that is off, or goes off meanwhile, the exit status and message are those of `lab on`.
        """
        request = {"argv": argv, "user": user, "stdin": stdin, "timeout_s": limit_s}
        try:
            line = self._residents.ask(host, json.dumps(request), limit_s + GRACE_S)
        except Gone as gone:
            return Done(status=gone.status, out="", err=gone.words)
        answer: dict[str, Any] = json.loads(line)
        if answer["status"] is None:
            raise subprocess.TimeoutExpired(argv, limit_s)
        return Done(**answer)

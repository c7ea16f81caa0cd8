"""The lab's resident agents (lab/gridlab/agent.py), kept while the tests run."""

import json
import subprocess
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAB = str(ROOT / "lab" / "lab")
AGENT = "/mnt/checkout/lab/agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command on a lab host left."""

    status: int
    out: str
    err: str


class Agents:
    """As many agents of a host as commands run there at once."""

    def __init__(self) -> None:
        self._idle: dict[str, list[subprocess.Popen[str]]] = defaultdict(list)
        self._lock = threading.Lock()

    def run(self, host: str, argv: tuple[str, ...], user: str, stdin: str, limit_s: float) -> Done:
        """Run a command on a host; subprocess.TimeoutExpired if it takes too long.

        A host that is off, or goes off meanwhile, gives the exit status and the words of `lab on`.
        """
        agent = self._take(host)
        request = {"argv": argv, "user": user, "stdin": stdin, "timeout_s": limit_s}
        line = _ask(agent, json.dumps(request))
        if not line:
            _, told = agent.communicate()
            return Done(status=agent.returncode, out="", err=told)
        with self._lock:
            self._idle[host].append(agent)
        answer: dict[str, Any] = json.loads(line)
        if answer["status"] is None:
            raise subprocess.TimeoutExpired(argv, limit_s)
        return Done(**answer)

    def _take(self, host: str) -> subprocess.Popen[str]:
        """Return an agent that nobody asks just now; those of a host that was off are gone."""
        with self._lock:
            while idle := self._idle[host]:
                agent = idle.pop()
                if agent.poll() is None:
                    return agent
                agent.communicate()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([LAB, "on", host, "--", AGENT], text=True, **streams)


def _ask(agent: subprocess.Popen[str], request: str) -> str:
    """Return the line that answers a request, empty when the agent has gone."""
    assert agent.stdin
    assert agent.stdout
    try:
        agent.stdin.write(request + "\n")
        agent.stdin.flush()
    except BrokenPipeError:
        return ""
    return agent.stdout.readline()

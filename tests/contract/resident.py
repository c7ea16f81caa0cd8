"""The installed adapters in processes that stay on a lab host and answer one call after another."""

import base64
import pickle
import subprocess
import threading
from collections import defaultdict
from typing import Any

from gridbridge.errors import CommandFailed
from tests.lab.agents import LAB

HOST = "alpha-master"  # reaches beta's cell and shares alice's home with its hosts
PYTHON = "/opt/gridbridge/venv/bin/python3"
LIMIT_S = 60.0
ANSWER = """
import base64, importlib, pickle, sys
from gridbridge.errors import GridbridgeError
for line in sys.stdin:
    module, name, arguments, options = pickle.loads(base64.b64decode(line))
    try:
        told = True, getattr(importlib.import_module(module), name)(*arguments, **options)
    except GridbridgeError as error:
        told = False, str(error)
    print(base64.b64encode(pickle.dumps(told)).decode(), flush=True)
"""

Process = subprocess.Popen[str]


class Residents:
    """As many processes of each person as there are calls at once."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Process]] = defaultdict(list)
        self._lock = threading.Lock()

    def call(
        self, person: str, module: str, name: str, *arguments: object, **options: object
    ) -> Any:
        """Call a function there as a person; CommandFailed with its words if it refuses."""
        process = self._take(person)
        is_told, told = _ask(process, (module, name, arguments, options))
        with self._lock:
            self._idle[person].append(process)
        if not is_told:
            raise CommandFailed((name,), 1, b"", told.encode())
        return told

    def _take(self, person: str) -> Process:
        """Return a process that nobody asks just now."""
        with self._lock:
            if self._idle[person]:
                return self._idle[person].pop()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        argv = [LAB, "on", HOST, "-u", person, "--", PYTHON, "-I", "-c", ANSWER]
        return subprocess.Popen(argv, text=True, **streams)


def _ask(process: Process, asked: object) -> tuple[bool, Any]:
    """Return what a process answers; one that does not, or not in time, is no more."""
    assert process.stdin
    assert process.stdout
    watch = threading.Timer(LIMIT_S, process.kill)
    watch.start()
    process.stdin.write(base64.b64encode(pickle.dumps(asked)).decode() + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    watch.cancel()
    assert line, f"{asked}: {process.communicate()[1]}"
    told: tuple[bool, Any] = pickle.loads(base64.b64decode(line))
    return told

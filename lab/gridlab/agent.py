"""A resident agent on a host: runs one command after another, without a `lab on` for each.

    lab/lab on HOST -- /mnt/checkout/lab/agent

Each request is a line of JSON, and so is its answer:

    {"argv": ["id"], "user": "alice", "stdin": "", "timeout_s": 60}
    {"status": 0, "out": "uid=10001(alice)...", "err": ""}

A command has the login environment and the exit statuses of `lab on`; `status` is null for one
that took too long and was ended with its process group. The agent ends with its standard input.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from gridlab import login
from gridlab.errors import LabError
from gridlab.topology import HOST_BY_NAME, Host

Answer = Mapping[str, Any]


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until standard input ends."""
    host = HOST_BY_NAME[_name_in_the_lab()]
    for line in requests:
        answers.write(json.dumps(answer(host, json.loads(line))) + "\n")
        answers.flush()


def _name_in_the_lab() -> str:
    """Return the lab's name of this host, which may differ from its host name."""
    variables = Path("/etc/gridlab/host").read_text()
    return variables.partition("GRIDLAB_HOST=")[2].split("\n")[0]


def answer(host: Host, request: Mapping[str, Any]) -> Answer:
    """Run the requested command and return its result."""
    argv = request["argv"]
    try:
        return _run(host, login.account_of(request["user"]), request)
    except LabError as error:
        return _failed(125, str(error))
    except FileNotFoundError:
        return _failed(127, f"{argv[0]}: not found on {host.name}")
    except OSError as error:
        return _failed(126, f"{argv[0]}: {error.strerror}")


def _run(host: Host, account: login.Account, request: Mapping[str, Any]) -> Answer:
    running = subprocess.Popen(
        request["argv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=login.folder(account),
        env=login.environment(host, account),
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        umask=0o022,
        start_new_session=True,
    )
    try:
        out, err = running.communicate(request["stdin"].encode(), request["timeout_s"])
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return {"status": None, "out": "", "err": ""}
    status = running.returncode if running.returncode >= 0 else 128 - running.returncode
    return {"status": status, "out": _text(out), "err": _text(err)}


def _failed(status: int, complaint: str) -> Answer:
    return {"status": status, "out": "", "err": f"lab: {complaint}\n"}


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")

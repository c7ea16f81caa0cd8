"""Run two functions by Parsl's Grid Engine provider, and print the hosts on which they ran."""

import json
import socket
import sys
from pathlib import Path

import parsl  # type: ignore[import-not-found]
from parsl.executors import HighThroughputExecutor  # type: ignore[import-not-found]
from parsl.launchers import SimpleLauncher  # type: ignore[import-not-found]
from parsl.providers import GridEngineProvider  # type: ignore[import-not-found]


def host_of(number: int) -> tuple[int, str]:
    from socket import gethostname  # it runs in another process

    return number, gethostname()


provider = GridEngineProvider(
    queue="transfer-beta",
    walltime="00:05:00",
    launcher=SimpleLauncher(),
    init_blocks=1,
    max_blocks=1,
    worker_init=f"PATH={Path(sys.executable).parent}:$PATH",
)
executor = HighThroughputExecutor(
    address=socket.gethostbyname(socket.gethostname()), max_workers_per_node=2, provider=provider
)
with parsl.load(parsl.Config(executors=[executor])):
    asked = [parsl.python_app(host_of)(number) for number in (1, 2)]
    sys.stdout.write(json.dumps([one.result(timeout=150) for one in asked]))

"""A real file server with one disk keeps its load near the target by the PI rule, and swings if a cluster is closed.

Tasks are processes on an embedded cluster, which read one block after the other from the server. The server serves one
block at a time; its load is the mean number of tasks that wait for a block, as in Linux's load average.
"""

import json
import time
from collections.abc import Iterator
from statistics import mean

import pytest

from tests.apart import PYTHON, Apart

pytestmark = [pytest.mark.apart, pytest.mark.long, pytest.mark.timeout(1200)]

BIN = f"{PYTHON} -I /opt/gridbridge/venv/bin"
TARGET, SLOTS = 30, 90
SETTLED_S, WATCHED_S, SWING_S = 270, 120, 120
SERVER = """
import asyncio, os

BLOCK_S, MEAN_S, EACH_S = 0.02, 20, 0.2  # time of a block, time constant of the load, pause between two counts


async def main():
    disk, waiting = asyncio.Lock(), set()

    async def serve(reader, writer):
        while await reader.readline():
            waiting.add(writer)
            async with disk:
                await asyncio.sleep(BLOCK_S)
            waiting.remove(writer)
            writer.write(b"block\\n")

    server, load = await asyncio.start_unix_server(serve, "served/socket"), 0.0
    while os.path.exists("served/go"):
        await asyncio.sleep(EACH_S)
        load += (len(waiting) - load) * EACH_S / MEAN_S
        with open("served/load.new", "w") as file:
            file.write(f"{load}\\n")
        os.replace("served/load.new", "served/load")


asyncio.run(main())
"""
READER = """
import socket, sys, time

number, server = int(sys.argv[1]), socket.socket(socket.AF_UNIX)
server.connect("served/socket")
until_s = time.monotonic() + 30 + 7 * number % 60
while time.monotonic() < until_s:
    server.sendall(b"read\\n")
    server.recv(100)
"""
BY_RULE = f"""
[storage.served]
cluster = "alpha"
path = "/mnt/served"
drained = true
load_command = "/mnt/served/report"
load_target = {TARGET}
load_integral_s = 30
"""
ON_AND_OFF = f"""
[campaigns.alpha]
stress_script = "/mnt/served/report"
stress_limit = {TARGET}
"""
JDL = {
    "name": "readers",
    "type": "normal",
    "walltime": "0:5",
    "nb_jobs": 2000,
    "exec_directory": "/mnt",
    "exec_file": f"{PYTHON} -I /mnt/served/reader.py",
    "clusters": {"alpha": {}},
}


class FileServerSite(Apart):
    """An embedded cluster, a file server and a runner."""

    def begin(self, limits: str) -> None:
        self.sh("mkdir served && touch served/go")
        self.sh("cp /opt/gridbridge/conf/embedded.toml /etc/gridbridge/gridbridge.toml")
        self.sh(f"cat >>/etc/gridbridge/gridbridge.toml <<'END'\n[runner]\ninterval_s = 5\n{limits}END")
        for name, text in (("server", SERVER), ("reader", READER)):
            self.sh(f"cat >served/{name}.py <<'END'\n{text}END")
        self.sh("printf '#!/bin/sh\\ncat /mnt/served/load\\n' >served/report && chmod 755 served/report")
        self.sh(f"{PYTHON} -I -m gridbridge.batch.embedded /mnt/alpha create --slots={SLOTS}")
        self.sh(f"{PYTHON} -I served/server.py >/dev/null 2>&1 &")
        self.sh("for n in $(seq 100); do [ -e served/load ] && exit; sleep 0.1; done; exit 1")
        self.sh(f"{BIN}/gridbridge-runner --loop >runner.log 2>&1 &")
        self.sh(f"{BIN}/gridsub - <<'END'\n{json.dumps(JDL)}\nEND")

    def loads(self, seconds: float) -> list[float]:
        """Return the load in each second of a time."""
        deadline, loads = time.monotonic() + seconds, list[float]()
        while time.monotonic() < deadline:
            loads.append(float(self.sh("cat served/load")))
            time.sleep(1)
        return loads

    def end(self) -> None:
        self.type("rm /mnt/served/go")
        self.close()


@pytest.fixture
def site(apart: tuple[str, ...]) -> Iterator[FileServerSite]:
    made = FileServerSite(apart)
    yield made
    made.end()


def test_the_load_of_a_file_server_stays_within_a_tenth_of_its_target(site: FileServerSite) -> None:
    site.begin(BY_RULE)
    site.loads(SETTLED_S)

    loads = site.loads(WATCHED_S)

    near = [abs(load / TARGET - 1) <= 0.1 for load in loads]
    assert abs(mean(loads) / TARGET - 1) <= 0.1, loads
    assert mean(near) >= 0.9, loads  # a busy machine delays a cycle


def test_the_load_of_a_file_server_swings_if_its_cluster_is_closed_and_opened(site: FileServerSite) -> None:
    site.begin(ON_AND_OFF)

    loads = site.loads(SWING_S)

    assert max(loads) > 2 * TARGET, loads

"""What bringing a campaign of 1,000,000 tasks costs, beside the plainest way to store its lines.

A folder of people's files and a state file of our own: no lab is needed. One process is gridsub,
which reads the parameters, brings the file and waits for its number; another is the runner's
intake. The baseline reads the same lines and writes them to the same disk. Each is a process of its
own, so that its memory is its own.

usage: python -m bench.campaign [--json FILE] [--tasks N]
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from gridbridge.config import jdl
from gridbridge.services.campaigns.intake import Intake
from gridbridge.services.tools import campaigns
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.database.campaigns import Campaigns

TASKS = 1_000_000
MOST_S, MOST_MB = 60.0, 500.0
JDL = '{"name": "b", "param_file": "lines", "clusters": {"beta": {"exec_file": "run"}}}'
PAUSE_S = 0.05  # between two looks of the intake; a runner's is 1 s


def main() -> None:
    """Print the row, and fail when it misses its target."""
    options = _options().parse_args()
    with TemporaryDirectory(dir="/var/tmp") as name:  # /tmp may be memory
        folder = Path(name)
        (folder / "lines").write_text(_lines(options.tasks))
        plain_s, plain_mb = _alone(lambda: _plain(folder))
        brought_s, client_mb, service_mb = _brought(folder)
        figures = {
            "tasks": options.tasks,
            "brought_s": brought_s,
            "client_mb": client_mb,
            "service_mb": service_mb,
            "plain_s": plain_s,
            "plain_mb": plain_mb,
        }
    tell(figures)
    if options.json:
        Path(options.json).write_text(json.dumps(figures))
    if brought_s > MOST_S or max(client_mb, service_mb) > MOST_MB:
        sys.exit(1)


def tell(figures: dict[str, float]) -> None:
    """Print a line."""
    sys.stdout.write(
        "{tasks} parameters brought and stored: {brought_s:.1f} s; gridsub {client_mb:.0f} MB,"
        " intake {service_mb:.0f} MB; read and written plainly {plain_s:.1f} s,"
        " {plain_mb:.0f} MB\n".format(**figures)
    )


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--tasks", type=int, default=TASKS)
    return options


def _lines(tasks: int) -> str:
    """Return a file with blank lines and words that come again."""
    return "".join(
        f"case-{n % (tasks // 2 + 1)} --seed {n} 'two words'\n{chr(10) * (n % 100 == 0)}"
        for n in range(tasks)
    )


def _plain(folder: Path) -> None:
    """Read the lines and write those that are not blank, as a line of shell would."""
    kept = [line for line in (folder / "lines").read_text().splitlines() if line]
    with (folder / "plain").open("w") as file:
        file.writelines(f"{line}\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())


def _brought(folder: Path) -> tuple[float, float, float]:
    """Return how long it takes from the file to its number, and what both sides need."""
    for name in ("files", "published"):
        (folder / name).mkdir()
    service = os.fork()
    if not service:
        _serve(folder)
    took_s, client_mb = _alone(lambda: _submit(folder))
    _, _, used = os.wait4(service, 0)
    return took_s, client_mb, used.ru_maxrss / 1024


def _submit(folder: Path) -> None:
    said = jdl.load("b.json", JDL, folder=str(folder))
    campaigns.submit(said, str(folder / "files"), str(folder / "published"))


def _serve(folder: Path) -> None:
    """Take one campaign in, as the runner does."""
    database = Database.open(f"sqlite:///{folder}/state.db")
    known, places = Campaigns(database), (str(folder / "files"), str(folder / "published"))
    intake = Intake(known, frozenset({"beta"}), Clock(), *places)
    while not intake.take():
        time.sleep(PAUSE_S)
    os._exit(0)


def _alone(work: Callable[[], None]) -> tuple[float, float]:
    """Do work in a process of its own; return its seconds, and the most memory that it had."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"ended with {status}")
    return time.monotonic() - began, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()

"""Cost of campaigns, each figure beside a baseline of the same run.

usage: python -m bench.campaign [--json FILE] [--tasks N] [PART ...]

brought     1,000,000 parameters, from gridsub to stored, beside the plainest way to store them
cycle       the decisions of one cycle (bench/cycle.py)
kept_tasks  what is kept of 1,000,000 ended tasks (bench/kept_tasks.py)
locks       the state file while others wait to write it (bench/locks.py)
reading     a cycle's look at tasks that run (bench/reading.py)
ledger      arrays noted in root's ledger (bench/ledger.py)
sending     what a call that sends arrays costs root (bench/sending.py)
injected    tasks submitted to real Grid Engine and OAR; needs the lab (bench/injection.py)
questions   how often two clusters are asked; needs the lab (bench/questions.py)
harvest     how a campaign fills a real cluster; needs the lab (bench/harvest.py)
short_tasks tasks of 1 s in jobs of several tasks; needs the lab (bench/short_tasks.py)
executor    calls of Python functions on embedded slots; needs user namespaces (bench/executor.py)

Without a part those that need no lab. `brought` has a folder of people's files and a state file of
its own. One process is gridsub, which reads the parameters, brings the file and waits for its
number; another is the runner's intake. The baseline reads the same lines and writes them to the
same disk. Each is a process of its own, so that its memory is its own. Exit status: 1 when a
target is missed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import (
    cycle,
    executor,
    harvest,
    injection,
    kept_tasks,
    ledger,
    locks,
    questions,
    reading,
    sending,
    short_tasks,
)
from bench.brief import sized
from bench.rows import Row, show
from gridbridge.campaigns.runner.campaign_intake import CampaignAndRequestIntake
from gridbridge.campaigns.store import campaign_client
from gridbridge.campaigns.submission import jdl_reader
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

TASKS = sized(1_000_000, 20_000)
NO_LAB = ("brought", "cycle", "kept_tasks", "locks", "reading", "ledger", "sending")
MOST_S, MOST_MB = 60.0, 500.0
JDL = '{"name": "b", "param_file": "lines", "clusters": {"beta": {"exec_file": "run"}}}'
PAUSE_S = 0.05  # between two looks of the intake; a runner's is 1 s


def main() -> None:
    """Print the table, and return 1 when a target is missed."""
    options = _options().parse_args()
    parts = {
        "brought": lambda: brought(options.tasks),
        "cycle": cycle.rows,
        "kept_tasks": lambda: kept_tasks.rows(options.tasks),
        "locks": locks.rows,
        "ledger": lambda: ledger.rows(options.tasks),
        "reading": reading.rows,
        "sending": lambda: sending.rows(options.tasks),
        "injected": injection.rows,
        "questions": questions.rows,
        "harvest": harvest.rows,
        "short_tasks": short_tasks.rows,
        "executor": executor.rows,
    }
    chosen = options.parts or NO_LAB
    rows = [row for name in chosen for row in parts[name]()]
    show(rows)
    if options.json:
        content = {"tasks": options.tasks, "rows": [asdict(row) for row in rows]}
        Path(options.json).write_text(json.dumps(content))
    missed = [row.what.strip() for row in rows if not row.is_met]
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(usage=(__doc__ or "").split("\n")[2][7:])
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--tasks", type=int, default=TASKS)
    options.add_argument("parts", nargs="*", metavar="PART")
    return options


def brought(tasks: int) -> list[Row]:
    """Measure the submission of a campaign."""
    with TemporaryDirectory(dir="/var/tmp") as name:  # /tmp may be memory
        folder = Path(name)
        (folder / "lines").write_text(_lines(tasks))
        plain_s, plain_mb = _alone(lambda: _plain(folder))
        brought_s, client_mb, service_mb = _brought(folder)
    return [
        Row(what="parameters brought and stored", measured=brought_s, unit="s", limit=MOST_S,
            baseline=plain_s),
        Row(what="  memory of gridsub", measured=client_mb, unit="MB", limit=MOST_MB,
            baseline=plain_mb),
        Row(what="  memory of the intake", measured=service_mb, unit="MB", limit=MOST_MB),
    ]  # fmt: skip


def _lines(tasks: int) -> str:
    """Return a file with blank lines and repeated words."""
    return "".join(
        f"case-{n % (tasks // 2 + 1)} --seed {n} 'two words'\n{chr(10) * (n % 100 == 0)}" for n in range(tasks)
    )


def _plain(folder: Path) -> None:
    """Read the lines and write the non-blank ones, as a line of shell would."""
    kept = [line for line in (folder / "lines").read_text().splitlines() if line]
    with (folder / "plain").open("w") as file:
        file.writelines(f"{line}\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())


def _brought(folder: Path) -> tuple[float, float, float]:
    """Return the time from the file to its number, with CPU and memory of both programs."""
    for name in ("files", "published"):
        (folder / name).mkdir()
    service = os.fork()
    if not service:
        _serve(folder)
    took_s, client_mb = _alone(lambda: _submit(folder))
    _, _, used = os.wait4(service, 0)
    return took_s, client_mb, used.ru_maxrss / 1024


def _submit(folder: Path) -> None:
    said = jdl_reader.parse_jdl("b.json", JDL, folder=str(folder))
    campaign_client.submit_campaign(
        said, FixedPaths(campaigns=str(folder / "files"), published=str(folder / "published"))
    )


def _serve(folder: Path) -> None:
    """Accept one campaign, as the runner does."""
    database = StateFile.open(f"sqlite:///{folder}/state.db")
    places = (str(folder / "files"), str(folder / "published"))
    intake = CampaignAndRequestIntake(database, frozenset({"beta"}), Clock(), *places)
    while not intake.process_inbox_files():
        time.sleep(PAUSE_S)
    os._exit(0)


def _alone(work: Callable[[], None]) -> tuple[float, float]:
    """Call a function in its own process; return its seconds and its peak memory."""
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

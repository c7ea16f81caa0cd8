"""Run time of commands that people use to inspect the site, beside loading the libraries alone.

Each command runs some times on the lab's alpha-master, as root or alice; the fastest run counts.
The baseline is an interpreter of the same installation that only loads the libraries which these
commands need (click, cattrs, SQLAlchemy and lxml). A page of tasks is of a made-up campaign, and is
not judged on small sizes. The limit of 1 s holds on a machine that does nothing else; so on a busy
machine look at the times of the baseline.

Usage: .venv/bin/python -m bench.looks [--json FILE]    in a lab, as root
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.brief import sized
from bench.rows import Row, show
from bench.site import HOST, is_possible
from tests.lab.grid import Grid

RUNS = sized(7, 2)
TASKS = sized(100_000, 10_000)  # of a page
MOST_S = 1.0
PYTHON = "/opt/gridbridge/venv/bin/python3"
PUBLISHED, NUMBER = "/tmp/gb-bench-published", 987654321
LIBRARIES = "import click, cattrs.preconf.json, sqlalchemy.dialects.sqlite, lxml.etree"
FLOOR = (PYTHON, "-I", "-c", LIBRARIES)
LOOKS = {
    "gridbridge check": ("root", "gridbridge", "check"),
    "gridbridge status": ("alice", "gridbridge", "status"),
    "gridbridge rebalance plan": ("root", "gridbridge", "rebalance", "plan"),
    "gridbridge balance plan": ("root", "gridbridge", "balance", "plan"),
    "gridclusters": ("alice", "gridclusters"),
    "gridstat": ("alice", "gridstat", "--published", PUBLISHED),
    f"gridstat -f, {TASKS} tasks": ("alice", "gridstat", str(NUMBER), "-f", "--published", PUBLISHED),
}

# Publish a campaign of which argv[1] tasks have ended.
PUBLISH = f"""
import sys
from datetime import datetime, timezone
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedCampaignList
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaignTask
from gridbridge.campaigns.store import published_campaign_files as campaign_files
from gridbridge.state import published_files as publishing
folder, number, tasks = "{PUBLISHED}", {NUMBER}, int(sys.argv[1])
publishing.make_published_folder(folder)
at = datetime.now(timezone.utc)
campaign = PublishedCampaign(
    number=number, name="look", owner="alice", submitted_at=at, type=CampaignType.DEFAULT,
    state=CampaignState.IN_TREATMENT, clusters=("beta",), tasks=tasks + 1, ended=tasks, failed=0,
)
campaign_files.publish_campaign_value(PublishedCampaignList(at=at, campaigns=(campaign,)), folder)
for part in range(0, tasks, campaign_files.A_FILE):
    ended = (
        PublishedCampaignTask(
            number=task, attempt=1, outcome=TaskAttemptOutcome.SUCCESS,
            is_waiting=False, cluster="beta",
            job_id=part + 1, place=task - part + 1, exit_status=0, wallclock_s=60,
        )
        for task in range(part, part + campaign_files.A_FILE)
    )
    campaign_files.publish_campaign_task_file(number, part // campaign_files.A_FILE, ended, folder)
"""

# Run argv[2:] some times (argv[1]); print the seconds and the CPU seconds of the fastest run.
TIMED = """
import json, os, sys, time
runs, argv, took = int(sys.argv[1]), sys.argv[2:], []
out = os.open(os.devnull, os.O_WRONLY)
for _ in range(runs):
    began = time.monotonic()
    child = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1)])
    _, status, used = os.wait4(child, 0)
    took.append((time.monotonic() - began, used.ru_utime + used.ru_stime))
    if os.waitstatus_to_exitcode(status) not in (0, 1, 2):
        sys.exit(f"{argv}: {status}")
print(json.dumps([min(column) for column in zip(*took)]))
"""


def rows() -> list[Row]:
    """Measure each command."""
    grid = Grid()
    grid.require_ready()
    _run(grid, "root", PYTHON, "-I", "-c", PUBLISH, str(TASKS))
    try:
        floor_s, _ = _took_s(grid, "root", FLOOR)
        return [_row(grid, what, *words, floor_s=floor_s) for what, words in LOOKS.items()]
    finally:
        grid.sh(HOST, f"rm -rf {PUBLISHED}")


def _row(grid: Grid, what: str, user: str, *argv: str, floor_s: float) -> Row:
    took_s, cpu_s = _took_s(grid, user, argv)
    return Row(
        what=what,
        measured=took_s,
        unit=f"s ({cpu_s:.2f} of CPU, {took_s / floor_s:.1f} times)",
        limit=MOST_S,
        baseline=floor_s,
        needs_whole=True,
    )


def _took_s(grid: Grid, user: str, argv: tuple[str, ...]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of the fastest run."""
    told = _run(grid, user, PYTHON, "-I", "-c", TIMED, str(RUNS), *argv)
    took_s, cpu_s = json.loads(told)
    return took_s, cpu_s


def _run(grid: Grid, user: str, *argv: str) -> str:
    done = grid.on(HOST, *argv, user=user, timeout_s=300)
    if done.status:
        sys.exit(f"bench.looks: {argv[-1]}: {done.err}")
    return done.out


def main() -> int:
    """Measure, print, and return 1 when a target is missed."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--json", type=Path, metavar="FILE")
    given = options.parse_args()
    if not is_possible():
        sys.exit("bench.looks: needs root and the lab (make lab)")
    found = rows()
    show(found)
    if given.json:
        given.json.write_text(json.dumps({"rows": [asdict(row) for row in found]}))
    return 0 if all(row.is_met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())

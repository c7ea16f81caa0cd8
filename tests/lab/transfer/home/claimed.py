"""Configuration, cut links and remaining files for the tests of claims."""

from contextlib import AbstractContextManager

from tests.lab.away import kill
from tests.lab.configured import configured, pollers
from tests.lab.grid import Grid, between

SILENT_S = 12  # after which what waits at a silent cluster comes home
GIVEN_UP_S = 6  # after which a command over a cut link is: sooner than a site would have it
GRANTS = "~gb_{0}/.gridbridge/grants"


def claimed(grid: Grid, cluster: str, kind: str, wait_s: int = 60) -> AbstractContextManager[None]:
    queue = rf"/^\[queue.transfer-{cluster}\]/a recall_unreachable_s = {SILENT_S}"
    return configured(
        grid,
        rf'/^\[cluster.{cluster}\]/a claim = "{kind}"\nclaim_wait_s = {wait_s}'
        rf"\ncommand_timeout_s = {GIVEN_UP_S}"
        f"\n{queue}\n/^.poller./a interval_s = 5",
    )


def frozen_poller(grid: Grid) -> AbstractContextManager[None]:
    pids = pollers(grid)
    return between(lambda signal: kill(grid, *pids, signal=signal), "STOP", "CONT")


def claims(grid: Grid) -> str:
    return grid.sh("alpha-master", "ls /var/spool/gridbridge/claims")


def grants(grid: Grid, cluster: str) -> str:
    folder = GRANTS.format(cluster)
    return grid.sh(f"{cluster}-master", f"if [ -e {folder} ]; then ls {folder}; fi")

"""A site under load is backed up and restored, also by killed commands, and each job runs once."""

from collections.abc import Iterator

import pytest

from tests.lab.away import QUIET
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(150)]

HOST = "alpha-master"
BACKUP, STATE = "/root/gridbridge.tar.gz", "/var/lib/gridbridge/state.db"
RESTORE = f"gridbridge restore --stop {BACKUP}"
KILLED_AFTER_S = (0.3, 0.7, 1.1)
RUN = "#!/bin/sh\necho x >>restored.$NAME\nuntil [ -e restored.go ]; do sleep 0.2; done\nexit 3\n"
CHECK = (
    f"python3 -c \"import sqlite3; print(*sqlite3.connect('{STATE}').execute('pragma integrity_check').fetchone())\""
)


@pytest.fixture
def jobs(grid: Grid, all_open: None) -> Iterator[tuple[str, str]]:
    """Return a job that was sent before the backup, and one that was sent after it; both run."""
    grid.sh(HOST, "rm -f ~/restored.*", user="alice")
    before = grid.transfer(*QUIET, "-v", "NAME=before", script=RUN)
    grid.until(lambda: runs(grid, "before"), "the first job to run")
    grid.sh(HOST, f"gridbridge backup {BACKUP}")
    after = grid.transfer(*QUIET, "-v", "NAME=after", script=RUN)
    grid.until(lambda: runs(grid, "after"), "the second job to run")
    yield before, after
    grid.sh(HOST, "touch ~/restored.go", user="alice")


def runs(grid: Grid, name: str) -> int:
    return len(grid.sh(HOST, f"cat ~/restored.{name} 2>/dev/null; :", user="alice").split())


def test_jobs_of_before_and_after_the_backup_run_once_after_killed_and_whole_restorations(
    grid: Grid, jobs: tuple[str, str]
) -> None:
    refused = grid.on(HOST, *RESTORE.replace("--stop ", "").split())
    for after_s in KILLED_AFTER_S:
        grid.on(HOST, "sh", "-c", f"timeout -s KILL {after_s} {RESTORE}; pkill -KILL -f '[s]qlite_copies'")
        assert grid.sh(HOST, CHECK).strip() == "ok"
    told = grid.sh(HOST, RESTORE)
    grid.require_ready()
    grid.sh(HOST, "touch ~/restored.go", user="alice")

    assert (refused.status, "gridbridge-poller (process " in refused.err) == (2, True)
    assert f"replaced {STATE} by the file of " in told
    assert [grid.accounting_of_end(job)["exit_status"] for job in jobs] == ["3", "3"]
    assert (runs(grid, "before"), runs(grid, "after")) == (1, 1)


def test_a_killed_backup_leaves_the_former_backup(grid: Grid, all_open: None) -> None:
    grid.sh(HOST, f"gridbridge backup {BACKUP}")
    for after_s in KILLED_AFTER_S[:2]:
        grid.on(HOST, "sh", "-c", f"timeout -s KILL {after_s} gridbridge backup {BACKUP}")
        assert grid.sh(HOST, f"tar -tzf {BACKUP} | tail -n 1").strip() == "manifest.json"

    assert grid.sh(HOST, f"gridbridge restore --dry-run {BACKUP}")

"""Finds the version of each running program, for the check."""

from gridbridge.decisions.site import versions
from gridbridge.model.places import BALANCE_LOCK, LOCK, METRICS_LOCK, NIKITA_LOCK, RUNNER_LOCK
from gridbridge.model.site.setup_findings import CheckFinding
from gridbridge.program.version import version
from gridbridge.shell import poller_lock
from gridbridge.shell.lock_holder import holder

LOCKS = {
    versions.POLLER: LOCK,
    "gridbridge-runner": RUNNER_LOCK,
    "gridbridge-nikita": NIKITA_LOCK,
    "gridbridge-balance": BALANCE_LOCK,
    "gridbridge-metrics": METRICS_LOCK,
}


def finding() -> CheckFinding:
    """Compare running versions with the installed version, which this process runs."""
    running = {
        program: versions.RunningProgram(version=running_version, pid=holder(path))
        for program, path in LOCKS.items()
        if (running_version := poller_lock.version_of_holder(path)) is not None
    }
    return versions.finding(running, version())

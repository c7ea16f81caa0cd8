"""Finds the version of each running program, for the check."""

from gridbridge.decisions.site import versions
from gridbridge.model.places import BALANCE_LOCK, LOCK, METRICS_LOCK, NIKITA_LOCK, RUNNER_LOCK
from gridbridge.model.site.setup import Finding
from gridbridge.services.version import version
from gridbridge.shell import lock

LOCKS = {
    "gridbridge-poller": LOCK,
    "gridbridge-runner": RUNNER_LOCK,
    "gridbridge-nikita": NIKITA_LOCK,
    "gridbridge-balance": BALANCE_LOCK,
    "gridbridge-metrics": METRICS_LOCK,
}


def finding() -> Finding:
    """Compare running versions with the installed version, which this process runs."""
    holders = {program: lock.version_of_holder(path) for program, path in LOCKS.items()}
    running = {program: found for program, found in holders.items() if found is not None}
    return versions.finding(running, version())

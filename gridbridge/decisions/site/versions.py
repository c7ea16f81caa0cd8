"""Judges whether each program runs the installed code: old programs outlast an upgrade."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.model.site.setup_findings import CheckFinding, FindingState

ITEM = "version"
POLLER = "gridbridge-poller"
BY_SENSOR = "the load sensor starts the poller"
UNKNOWN = "an unknown version"  # of a program that could not note it, as on a full disk


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """A program that runs: its code's version, empty if unknown, and its process, 0 likewise."""

    version: str
    pid: int


def finding(running: Mapping[str, RunningProgram], installed: str) -> CheckFinding:
    """Name the programs that run another version than the installed one."""
    others = {
        program: found
        for program, found in running.items()
        if not _is_same(found.version, installed)
    }
    if not others:
        return CheckFinding(item=ITEM, state=FindingState.OK, found=installed)
    differing = (f"{program} runs {found.version or UNKNOWN}" for program, found in others.items())
    return CheckFinding(
        item=ITEM,
        state=FindingState.BROKEN,
        found=", ".join(differing),
        right=installed,
        hint=f"systemctl restart {' '.join(others)}; {_without_systemd(others)}",
    )


def _is_same(running: str, installed: str) -> bool:
    """Compare versions; commits only count if both sides tell theirs."""
    (version, _, commit), (right, _, commit_there) = (
        running.partition("+"),
        installed.partition("+"),
    )
    return version == right and (commit == commit_there or not (commit and commit_there))


def _without_systemd(others: Mapping[str, RunningProgram]) -> str:
    """Return what ends them otherwise; the poller's process does not bear its name."""
    pids = " ".join(str(found.pid) for found in others.values() if found.pid)
    ended = f"`kill {pids}`" if pids else "end each"
    by_hand = "start each as before" if others.keys() - {POLLER} else ""
    by_sensor = BY_SENSOR if POLLER in others else ""
    return f"without systemd {', '.join(filter(None, (ended, by_hand, by_sensor)))}"

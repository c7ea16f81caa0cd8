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
    outdated = {
        program: process
        for program, process in running.items()
        if not _is_same(process.version, installed)
    }
    if not outdated:
        return CheckFinding(item=ITEM, state=FindingState.OK, found=installed)
    differing = (
        f"{program} runs {process.version or UNKNOWN}" for program, process in outdated.items()
    )
    return CheckFinding(
        item=ITEM,
        state=FindingState.BROKEN,
        found=", ".join(differing),
        right=installed,
        hint=f"systemctl restart {' '.join(outdated)}; {_without_systemd(outdated)}",
    )


def _is_same(running: str, installed: str) -> bool:
    """Compare versions; commits only count if both sides tell theirs."""
    (version, _, commit), (right, _, commit_there) = (
        running.partition("+"),
        installed.partition("+"),
    )
    return version == right and (commit == commit_there or not (commit and commit_there))


def _without_systemd(outdated: Mapping[str, RunningProgram]) -> str:
    """Return what ends them otherwise; the poller's process does not bear its name."""
    pids = " ".join(str(process.pid) for process in outdated.values() if process.pid)
    ended = f"`kill {pids}`" if pids else "end each"
    by_hand = "start each as before" if outdated.keys() - {POLLER} else ""
    by_sensor = BY_SENSOR if POLLER in outdated else ""
    return f"without systemd {', '.join(filter(None, (ended, by_hand, by_sensor)))}"

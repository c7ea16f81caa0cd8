"""Judges whether each program runs the installed code: old programs outlast an upgrade."""

from collections.abc import Mapping

from gridbridge.model.site.setup import Finding, State

ITEM = "version"
WITHOUT_SYSTEMD = "without it end each, and start it as before: `pkill -f PROGRAM`"
UNKNOWN = "an unknown version"  # of a program from before programs noted it


def finding(running: Mapping[str, str], installed: str) -> Finding:
    """Name the programs that run another version than the installed one."""
    others = {
        program: found for program, found in running.items() if not _is_same(found, installed)
    }
    if not others:
        return Finding(item=ITEM, state=State.OK, found=installed)
    differing = ", ".join(f"{program} runs {found or UNKNOWN}" for program, found in others.items())
    return Finding(
        item=ITEM,
        state=State.BROKEN,
        found=differing,
        right=installed,
        hint=f"systemctl restart {' '.join(others)}; {WITHOUT_SYSTEMD}",
    )


def _is_same(running: str, installed: str) -> bool:
    """Compare versions; commits only count if both sides tell theirs."""
    (version, _, commit), (right, _, commit_there) = (
        running.partition("+"),
        installed.partition("+"),
    )
    return version == right and (commit == commit_there or not (commit and commit_there))

"""After an upgrade check names each running program with old code."""

import pytest

from gridbridge.decisions.site.service_fault_findings import UNKNOWN, RunningProgramVersion, program_version_finding
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity

OLD, NEW = "0.1.0+1111111111", "0.1.0+2222222222"


def running(version: str, pid: int = 0) -> RunningProgramVersion:
    return RunningProgramVersion(version=version, pid=pid)


def test_programs_of_the_installed_version_are_ok() -> None:
    programs = {"gridbridge-poller": running(NEW), "gridbridge-runner": running(NEW)}

    told = program_version_finding(programs, NEW)

    assert (told.state, told.found) == (FindingSeverity.OK, NEW)


def test_programs_with_old_code_are_broken_with_their_restart_command() -> None:
    told = program_version_finding(
        {
            "gridbridge-poller": running(NEW, 41),
            "gridbridge-runner": running(OLD, 42),
            "gridbridge-nikita": running("", 43),
        },
        NEW,
    )

    expected = f"gridbridge-runner runs {OLD}, gridbridge-nikita runs {UNKNOWN}"
    assert (told.state, told.found, told.right) == (FindingSeverity.BROKEN, expected, NEW)
    assert told.hint == (
        "systemctl restart gridbridge-runner gridbridge-nikita; without systemd `kill 42 43`, "
        "start each program as before"
    )


@pytest.mark.parametrize(
    ("pids", "without"),
    [
        ((41, 42), "`kill 41 42`, start each program as before, the load sensor starts the poller"),
        ((41, None), "`kill 41`, the load sensor starts the poller"),
        ((0, None), "end each program, the load sensor starts the poller"),
    ],
)
def test_a_poller_without_systemd_is_killed_by_its_pid(pids: tuple[int, int | None], without: str) -> None:
    programs = {
        program: running(OLD, pid)
        for program, pid in zip(("gridbridge-poller", "gridbridge-runner"), pids, strict=True)
        if pid is not None
    }

    assert program_version_finding(programs, NEW).hint.endswith(f"; without systemd {without}")


def test_no_running_program_is_ok() -> None:
    assert program_version_finding({}, NEW).state == FindingSeverity.OK


@pytest.mark.parametrize(("version", "installed"), [("0.1.0", NEW), (NEW, "0.1.0")])
def test_a_version_without_a_commit_is_compared_by_its_number(version: str, installed: str) -> None:
    """The commit may be unknown, as in a package built without git."""
    assert program_version_finding({"gridbridge-poller": running(version)}, installed).state == FindingSeverity.OK
    assert program_version_finding({"gridbridge-poller": running("0.0.9")}, installed).state == FindingSeverity.BROKEN

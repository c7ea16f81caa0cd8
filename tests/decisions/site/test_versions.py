"""After an upgrade the check names each program that goes on with old code."""

import pytest

from gridbridge.decisions.site.versions import UNKNOWN, finding
from gridbridge.model.site.setup import State

OLD, NEW = "0.1.0+1111111111", "0.1.0+2222222222"


def test_programs_of_the_installed_version_are_well() -> None:
    told = finding({"gridbridge-poller": NEW, "gridbridge-runner": NEW}, NEW)

    assert (told.state, told.found) == (State.OK, NEW)


def test_programs_with_old_code_are_named_with_what_restarts_them() -> None:
    running = {"gridbridge-poller": NEW, "gridbridge-runner": OLD, "gridbridge-nikita": ""}

    told = finding(running, NEW)

    expected = f"gridbridge-runner runs {OLD}, gridbridge-nikita runs {UNKNOWN}"
    assert (told.state, told.found, told.right) == (State.BROKEN, expected, NEW)
    assert told.hint.startswith("systemctl restart gridbridge-runner gridbridge-nikita;")


def test_nothing_that_runs_is_nothing_old() -> None:
    assert finding({}, NEW).state == State.OK


@pytest.mark.parametrize(("running", "installed"), [("0.1.0", NEW), (NEW, "0.1.0")])
def test_a_version_without_its_commit_is_compared_by_its_number(
    running: str, installed: str
) -> None:
    """Nobody may know the commit, as of a package that was built without git."""
    assert finding({"gridbridge-poller": running}, installed).state == State.OK
    assert finding({"gridbridge-poller": "0.0.9"}, installed).state == State.BROKEN

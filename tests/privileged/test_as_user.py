"""gridbridge-as-user survives an owner who stops or kills its worker process."""

import os
import pwd
import signal
from collections.abc import Callable

import pytest

from gridbridge.batch.embedded import job_submission_and_control as embedded
from gridbridge.batch.gridengine import job_submission_and_control as gridengine
from gridbridge.batch.oar import job_submission_and_control as oar
from gridbridge.errors import GridbridgeError
from gridbridge.privileged import as_user, as_user_refusals_and_user_switch
from gridbridge.privileged.process_scope import FIRST_SIGNAL, UserProcessScope

KILLED = (-signal.SIGKILL, FIRST_SIGNAL + signal.SIGKILL)  # the second: of root's scope


def a_child(act: Callable[[], object]) -> UserProcessScope:
    child = UserProcessScope(as_user_refusals_and_user_switch.LIMIT_S)
    if child.pid == 0:
        act()
        os._exit(0)
    return child


def test_a_stopped_child_is_killed_at_the_time_limit() -> None:
    child = a_child(lambda: os.kill(os.getpid(), signal.SIGSTOP))

    with pytest.raises(GridbridgeError, match=r"not done within 0\.2 s"):
        as_user_refusals_and_user_switch.exit_with_child(child, 0.2)
    assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) in KILLED


def test_the_signal_that_killed_a_child_is_reported() -> None:
    """The kernel kills processes when a host has no free memory."""
    child = a_child(lambda: os.kill(os.getpid(), signal.SIGKILL))

    with pytest.raises(GridbridgeError, match="ended by signal 9"):
        as_user_refusals_and_user_switch.exit_with_child(child)


@pytest.mark.parametrize(("act", "status"), [(lambda: None, 0), (lambda: os._exit(2), 2)], ids=["done", "refused"])
def test_as_user_exits_with_the_status_of_its_child(act: Callable[[], object], status: int) -> None:
    watcher = a_child(lambda: as_user_refusals_and_user_switch.exit_with_child(a_child(act)))

    assert os.waitstatus_to_exitcode(os.waitpid(watcher.pid, 0)[1]) == status


def test_switching_to_the_own_user_needs_no_right() -> None:
    assert as_user_refusals_and_user_switch.switch_to_user(os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize("adapter", [embedded, gridengine, oar], ids=["embedded", "gridengine", "oar"])
def test_every_verb_is_a_function_of_every_adapter(adapter: object) -> None:
    """Adapters are loaded only for a job of their kind."""
    missing = [name for name in as_user.VERBS.values() if name and not hasattr(adapter, name)]

    assert missing == []

"""Root runs commands as another account with the groups of that account only."""

import os
import pwd

import pytest

from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import setpriv_command_prefix

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_setpriv_switches_user_and_groups_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """With root's group, a file that only that group can read would count as readable."""
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    ids = (f"--reuid={me.pw_uid}", f"--regid={me.pw_gid}")
    assert setpriv_command_prefix(me.pw_name) == ("/usr/bin/setpriv", *ids, "--init-groups", "--")
    assert setpriv_command_prefix("nobody-of-that-name") == ()


def test_setpriv_is_not_used_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)

    assert setpriv_command_prefix("root") == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another account")
def test_setpriv_drops_the_groups_of_root() -> None:
    done = run_program((*setpriv_command_prefix("nobody"), "/usr/bin/id", "-G"), ENVIRONMENT, 10)

    assert b"0" not in done.require_success().stdout.split()

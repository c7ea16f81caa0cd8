"""Root asks as another account with that account's groups, and none of its own."""

import os
import pwd

import pytest

from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import setpriv_command_prefix

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_a_question_of_root_has_the_groups_of_the_account_it_asks_as(monkeypatch: pytest.MonkeyPatch) -> None:
    """With root's group a file that only root's group may read counted as readable."""
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    ids = (f"--reuid={me.pw_uid}", f"--regid={me.pw_gid}")
    assert setpriv_command_prefix(me.pw_name) == ("/usr/bin/setpriv", *ids, "--init-groups", "--")
    assert setpriv_command_prefix("nobody-of-that-name") == ()


def test_others_than_root_ask_as_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)

    assert setpriv_command_prefix("root") == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another account")
def test_a_group_of_roots_opens_nothing_to_the_account() -> None:
    done = run_program((*setpriv_command_prefix("nobody"), "/usr/bin/id", "-G"), ENVIRONMENT, 10)

    assert b"0" not in done.checked().stdout.split()

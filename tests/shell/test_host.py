"""What a host knows of its accounts."""

import os
import pwd

import pytest

from gridbridge.shell import host


def test_this_host_is_known_by_its_name_and_by_each_of_its_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"inner": "127.0.0.1", "other": "192.0.2.7"}
    monkeypatch.setattr(host.socket, "gethostbyname", lambda name: known[name])

    assert [host.is_here(one) for one in (host.name(), "inner", "other")] == [True, True, False]


def test_groups_are_those_of_the_system_the_primary_one_first() -> None:
    me = pwd.getpwuid(os.getuid())
    found = host.groups_of(me.pw_name)

    assert host.groups_of("nobody at all") == ()
    assert len(found) == len(os.getgrouplist(me.pw_name, me.pw_gid))
    assert host.groups_of("root")[0] == "root"

"""What a host knows of its accounts."""

import os
import pwd

from gridbridge.shell import host


def test_groups_are_those_of_the_system_the_primary_one_first() -> None:
    me = pwd.getpwuid(os.getuid())
    found = host.groups_of(me.pw_name)

    assert host.groups_of("nobody at all") == ()
    assert len(found) == len(os.getgrouplist(me.pw_name, me.pw_gid))
    assert host.groups_of("root")[0] == "root"

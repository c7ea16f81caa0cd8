"""check tries the ssh key of a user only if the user may have an account at the cluster."""

import os
import pwd

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.model.config_key_descriptions import RemoteAccounts
from gridbridge.model.site.site_section import SiteSection
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.site import site_inspection


@pytest.mark.parametrize(
    ("users", "tried"),
    [
        (RemoteAccounts(alice="al_delta", gridbridge="gb_delta"), []),
        (RemoteAccounts(alice="al_delta", carol="carol"), ["carol"]),
        (RemoteAccounts(gridbridge="gb_delta"), ["carol"]),
    ],
    ids=["others are named", "named", "nobody is named"],
)
def test_the_users_own_key_is_tried_only_where_an_account_is_possible(
    users: RemoteAccounts, tried: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise GridbridgeError("no")

    carol = pwd.struct_passwd(("carol", "x", 1234, 1234, "", "/nonexistent", "/bin/sh"))
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: carol)
    monkeypatch.setattr(site_inspection.ssh, "run_over_ssh", refuse)
    clusters = {"alpha": ClusterSection(), "delta": ClusterSection(ssh="delta-master", users=users)}
    policy = Policy(site=SiteSection(cluster="alpha"), clusters=clusters, queues={})

    assert [each.person for each in site_inspection.inspect_ssh_keys(policy)] == tried

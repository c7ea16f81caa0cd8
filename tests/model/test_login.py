"""The ssh login of a user at a cluster, and whether two host names mean the same host."""

import pytest

from gridbridge.model import transfer_route
from gridbridge.model.elastic.elastic_nodes import is_same_host

SIDES = {f"{side}_timeout_s": "15" for side in ("local", "remote")}
BY_SSH = transfer_route.TransferRoute(remote_ssh="far:2222", remote_users="alice=al bob=bo", **SIDES)
SECTION = {"ssh": "far:2222", "users": {"alice": "al"}, "qmaster_port": 6444}


@pytest.mark.parametrize(("person", "user"), [("alice", "al"), ("bob", "bo"), ("carol", "carol")])
def test_a_route_gives_each_user_the_mapped_account(person: str, user: str) -> None:
    reached = (
        transfer_route.decode_transfer_route(transfer_route.encode_transfer_route(BY_SSH))
        .remote_cluster_access_as_user(person)
        .login
    )

    assert reached
    assert (reached.host, reached.port, reached.user) == ("far", "2222", user)


def test_a_route_without_ssh_has_no_login() -> None:
    assert transfer_route.TransferRoute(**SIDES).remote_cluster_access.login is None


def test_a_shorter_timeout_keeps_the_login() -> None:
    reached = BY_SSH.remote_cluster_access_as_user("alice").with_time_limit(3)

    assert reached.login
    assert (reached.timeout_s, reached.login.user) == (3, "al")


@pytest.mark.parametrize(("person", "user"), [("alice", "al"), ("carol", "carol")])
def test_a_cluster_section_gives_each_user_the_mapped_account(person: str, user: str) -> None:
    reached = transfer_route.remote_cluster_access_of_person(SECTION, "delta", person)

    assert reached.login
    assert (reached.cell, reached.qmaster_port) == ("delta", "6444")
    assert (reached.login.host, reached.login.port, reached.login.user) == ("far", "2222", user)


def test_an_empty_ssh_address_is_no_login() -> None:
    assert transfer_route.parse_ssh_login_address("", "alice") is None
    assert transfer_route.remote_cluster_access_of_person({}, "beta", "alice").login is None


def test_an_embedded_cluster_section_gives_its_folder() -> None:
    reached = transfer_route.remote_cluster_access_of_person(
        {"kind": "embedded", "folder": "/mnt/beta"}, "beta", "alice"
    )

    assert isinstance(reached, transfer_route.EmbeddedClusterAccessSettings)
    assert (reached.folder, reached.login) == ("/mnt/beta", None)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("alpha", "alpha", True),
        ("alpha", "alpha.example.org", True),
        ("Alpha.Example.org", "alpha.example.org", True),
        ("ALPHA", "alpha.example.org", True),
        ("alpha.example.org", "alpha.example.com", False),
        ("alpha", "alpha2", False),
        ("alpha", "alpha2.example.org", False),
    ],
)
def test_host_names_are_equal_without_case_and_missing_domain(one: str, other: str, is_same: bool) -> None:
    assert (is_same_host(one, other), is_same_host(other, one)) == (is_same, is_same)

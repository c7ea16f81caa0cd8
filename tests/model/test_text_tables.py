"""Whose account is whose in another domain."""

import pytest

from gridbridge.model.config_key_descriptions import RemoteAccounts

USERS = RemoteAccounts(alice="al", bob="carol")


@pytest.mark.parametrize(
    ("account", "person"),
    [("al", "alice"), ("carol", "bob"), ("dave", "dave"), ("alice", "alice@far"), ("bob", "bob@far")],
)
def test_an_account_is_its_holders_or_of_the_same_name(account: str, person: str) -> None:
    """One that is called like somebody with another account is nobody's."""
    assert USERS.person_of(account, "far") == person


@pytest.mark.parametrize("person", ["alice", "bob", "dave"])
def test_who_logs_in_is_known_by_their_account(person: str) -> None:
    assert USERS.person_of(USERS.account_of(person), "far") == person

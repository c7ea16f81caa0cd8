"""The mapping between local people and remote accounts."""

import pytest

from gridbridge.model.config_key_descriptions import RemoteAccounts

USERS = RemoteAccounts(alice="al", bob="carol")


@pytest.mark.parametrize(
    ("account", "person"),
    [("al", "alice"), ("carol", "bob"), ("dave", "dave"), ("alice", "alice@far"), ("bob", "bob@far")],
)
def test_a_remote_account_belongs_to_its_mapped_or_equally_named_person(account: str, person: str) -> None:
    """An account with the name of a person who is mapped to another account belongs to nobody."""
    assert USERS.user_of_remote_account(account, "far") == person


@pytest.mark.parametrize("person", ["alice", "bob", "dave"])
def test_the_account_of_a_person_leads_back_to_the_person(person: str) -> None:
    assert USERS.user_of_remote_account(USERS.remote_account_of_user(person), "far") == person

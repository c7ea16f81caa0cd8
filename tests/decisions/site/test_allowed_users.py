"""The user_lists of a transfer queue follow the users named in gridbridge.toml."""

from dataclasses import replace

import pytest

from gridbridge.decisions.site.transfer_queue_setup_findings import (
    transfer_queue_removal_edits,
    transfer_setup_findings,
)
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity, SetupEdit, TransferSetupSituation
from gridbridge.site import setup_edits
from tests.decisions.site.setups import WANTED, a_ready_situation, at_home

NAMED = replace(WANTED, people=("alice", "bob"))


def a_situation(listed: tuple[str, ...] | None, lists: str, people: bool = True) -> TransferSetupSituation:
    """Return a ready situation with these members of gb_beta_users (None: no such list) and user_lists."""
    wanted = NAMED if people else WANTED
    situation = a_ready_situation(wanted, user_lists=lists)
    return at_home(situation, user_lists={} if listed is None else {"gb_beta_users": listed})


def lines(situation: TransferSetupSituation) -> list[str]:
    edits = (
        edit for each in transfer_setup_findings(situation) if each.state != FindingSeverity.OK for edit in each.mend
    )
    return list(map(setup_edits.setup_edit_command, edits))


ADD = "qconf -mattr queue user_lists gb_beta_users transfer-beta"
DROP = "qconf -dattr queue user_lists gb_beta_users transfer-beta"
BOB, OUT = "qconf -au bob gb_beta_users", "qconf -du carol gb_beta_users"
HOST_LIST = "staff,[tee=gb_beta_users]"


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(a_situation(None, "NONE"), ["qconf -au alice,bob gb_beta_users", ADD], id="nothing"),
        pytest.param(a_situation(("alice", "bob"), "gb_beta_users"), [], id="all"),
        pytest.param(a_situation(("bob", "alice"), "staff gb_beta_users"), [], id="another list besides"),
        pytest.param(a_situation(("alice",), "gb_beta_users"), [BOB], id="one too few"),
        pytest.param(a_situation(("alice", "carol"), "gb_beta_users"), [BOB, OUT], id="another one"),
        pytest.param(a_situation(("alice", "bob"), "NONE"), [ADD], id="list unused"),
        pytest.param(a_situation(None, "NONE", people=False), [], id="nobody named"),
        pytest.param(a_situation(None, "staff", people=False), [], id="nobody named, a list of the site's"),
        pytest.param(a_situation(("alice",), "gb_beta_users", people=False), [DROP], id="nobody named any more"),
        pytest.param(a_situation(("alice", "bob"), HOST_LIST), [ADD], id="usual list alone"),
        pytest.param(
            a_situation(("alice", "bob"), "gb_beta_users,[tee=staff]"), [f"{ADD}@tee"], id="host's list alone"
        ),
        pytest.param(
            a_situation(("alice",), HOST_LIST, people=False), [f"{DROP}@tee"], id="nobody named any more, on a host"
        ),
    ],
)
def test_the_access_list_of_a_queue_follows_the_configured_users(
    situation: TransferSetupSituation, expected: list[str]
) -> None:
    assert expected == lines(situation)


def test_a_new_queue_is_created_with_its_access_list() -> None:
    situation = a_situation(None, "NONE")
    new = at_home(situation, queues={"all.q": situation.home.queues["all.q"]})

    people, _, queue = lines(new)[-3:]
    assert people == "qconf -au alice,bob gb_beta_users"
    assert "s|^user_lists .*|user_lists gb_beta_users|" in queue


@pytest.mark.parametrize(("others", "expected"), [("NONE", True), ("gb_beta_users", False)], ids=["last", "shared"])
def test_the_access_list_is_removed_with_its_last_queue(others: str, expected: bool) -> None:
    situation = a_situation(("alice",), "gb_beta_users")
    other = {"complex_values": "remote=TRUE", "hostlist": "tee", "user_lists": others}
    shared = at_home(situation, queues={**situation.home.queues, "transfer-too": other})

    edits: tuple[SetupEdit, ...] = transfer_queue_removal_edits(shared, ())
    assert expected == ("qconf -dul gb_beta_users" in map(setup_edits.setup_edit_command, edits))

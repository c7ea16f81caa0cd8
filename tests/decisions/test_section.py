"""What gridbridge.toml has to say besides the queue's own section."""

from dataclasses import replace

import pytest

from gridbridge.decisions.section import all_slots, findings, room
from gridbridge.model.policy import Cluster, Policy, Poller, Site, TransferQueue
from gridbridge.model.setup import State
from tests.decisions.setups import WANTED

POLICY = Policy(
    site=Site(cluster="alpha"),
    clusters={"alpha": Cluster(qmaster_port=1, execd_port=2)},
    queues={
        "transfer-beta": TransferQueue(cluster="beta", pending_limit=1, slots=200),
        "transfer-gamma": TransferQueue(cluster="gamma", pending_limit=1, slots=300),
    },
    poller=Poller(spool_files_per_uid=2000),
)


@pytest.mark.parametrize(("slots", "state"), [(500, State.OK), (501, State.WARNING)])
def test_the_spool_has_room_for_four_messages_a_slot(slots: int, state: State) -> None:
    assert room(POLICY, slots).state == state


def test_a_spool_without_room_has_its_remedy() -> None:
    found = room(POLICY, 600)

    assert found.found == "2000, too few for 600 transfer slots of one user"
    assert found.right == "2400 at least"
    assert found.hint.startswith("set it in [poller]")


def test_one_user_may_fill_all_transfer_queues_as_they_are_or_will_be() -> None:
    assert all_slots(POLICY) == 500
    assert all_slots(POLICY, WANTED) == 310


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_section_is_rewritten_with_the_epilog_that_was_asked_for(is_wanted: bool) -> None:
    (found,) = findings(POLICY, replace(WANTED, remote_usage=is_wanted))
    (edit,) = found.mend

    assert ("remote_usage = true" in edit.value) == is_wanted

"""The home job list proves or refutes the owner of a transfer."""

import pytest

from gridbridge.decisions.transfer import transfers_in_job_lists
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferOutcome
from tests.decisions.transfer.test_transfer_policy import NOON, a_row, a_snapshot, a_transfer

ENDED = TransferMessage(outcome=TransferOutcome.EXIT, exit_status="0")


def transfer(name: str = "gb.alpha.7.0.1", owner: str = "alice", **values: object) -> Transfer:
    uid, unseen = {"alice": 1001, "bob": 1002}[owner], {"local_state": UNSEEN, "remote_state": UNSEEN}
    begun = a_transfer(name=name, uid=uid, owner=owner, remote_id=0, created_at=NOON, updated_at=NOON, **unseen)
    return begun.with_changes(**values)


def home(*rows: ClusterJobListRow, at_s: float = 1) -> ClusterSnapshot:
    return a_snapshot("alpha", at_s, *rows)


def row(owner: str = "alice", tasks: tuple[range, ...] = ()) -> ClusterJobListRow:
    return a_row(7, "r", owner=owner, tasks=tasks)


@pytest.mark.parametrize(
    ("one", "what", "listed"),
    [
        (transfer(), home(row()), OwnerSeenInHomeJobList.YES),
        (transfer(), home(row("bob")), OwnerSeenInHomeJobList.NO),
        (transfer(), home(), OwnerSeenInHomeJobList.NO),
        (transfer(), home(at_s=-1), ""),
        (transfer(), home(row(), at_s=-1), OwnerSeenInHomeJobList.YES),
        (transfer(listed=OwnerSeenInHomeJobList.YES), home(), OwnerSeenInHomeJobList.YES),
        (transfer(listed=OwnerSeenInHomeJobList.NO), home(row()), OwnerSeenInHomeJobList.YES),
        (transfer(verdict=ENDED), home(), ""),
        (transfer(desired=DesiredLocalJobState.DEAD), home(), ""),
        (transfer("gb.alpha.7.3.1"), home(row()), OwnerSeenInHomeJobList.NO),
        (transfer("gb.alpha.7.3.1"), home(row(tasks=(range(3, 4),))), OwnerSeenInHomeJobList.YES),
        (transfer("gb.alpha.7.9.1"), home(row(tasks=(range(3, 4),))), OwnerSeenInHomeJobList.NO),
        (transfer("gb.alpha.7.0.1"), home(row(tasks=(range(3, 4),))), OwnerSeenInHomeJobList.NO),
    ],
    ids=[
        *("listed", "another's", "not listed", "asked before it began", "listed before it began", "listed once"),
        *("listed later", "it may just have ended", "it may just have been deleted"),
        *("a task of a job that has none", "a task", "a task that there is not", "no task of an array"),
    ],
)
def test_the_home_job_list_proves_or_refutes_the_owner_of_a_transfer(
    one: Transfer, what: ClusterSnapshot, listed: str
) -> None:
    assert transfers_in_job_lists.prove_transfer_owner_by_home(one, what) == listed


@pytest.mark.parametrize(
    ("what", "listed"),
    [
        (home(), ""),
        (home(row("bob")), OwnerSeenInHomeJobList.NO),
        (home(row()), OwnerSeenInHomeJobList.YES),
        (home(row(tasks=(range(3, 4),))), ""),
    ],
    ids=["gone", "another's job", "put back", "another task of theirs"],
)
def test_an_ended_transfer_is_refuted_only_by_a_job_of_another_owner(what: ClusterSnapshot, listed: str) -> None:
    assert transfers_in_job_lists.prove_ended_transfer_owner(transfer(closed_at=NOON), what) == listed


HERS, HIS = transfer(listed=OwnerSeenInHomeJobList.YES), transfer("gb.alpha.7.0.99", "bob")


@pytest.mark.parametrize(
    ("transfers", "proved", "told"),
    [
        ((HERS, HIS), {1001}, set()),
        ((HERS.with_changes(listed=""), HIS), set(), {1001, 1002}),
        ((HERS.with_changes(listed=""), HIS.with_changes(listed=OwnerSeenInHomeJobList.NO)), set(), {1001}),
        ((HIS.with_changes(listed=OwnerSeenInHomeJobList.NO),), set(), set()),
    ],
)
def test_a_proved_owner_excludes_all_unproved_claims_to_a_task(
    transfers: tuple[Transfer, ...], proved: set[int], told: set[int]
) -> None:
    assert (
        transfers_in_job_lists.proved_owner_uids(transfers),
        transfers_in_job_lists.uids_claiming_unproved_task(transfers),
    ) == (proved, told)


def test_old_attempts_and_middle_events_are_left_out_and_counted() -> None:
    shown, left_out = transfers_in_job_lists.drop_middle_events(range(100))

    assert (len(shown), left_out) == (50, 50)
    assert (shown[0], shown[9], shown[10], shown[-1]) == (0, 9, 60, 99)
    assert transfers_in_job_lists.drop_middle_events((1, 2)) == ((1, 2), 0)
    assert transfers_in_job_lists.drop_oldest_attempts(range(30)) == (range(10, 30), 10)
    assert transfers_in_job_lists.drop_oldest_attempts((1, 2)) == ((1, 2), 0)

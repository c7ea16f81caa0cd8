"""What outlives its end or is no transfer's is deleted; what is about to leave never."""

from dataclasses import replace

import pytest

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    find_orphan_jobs,
    is_remote_job_unlisted,
    may_remote_folder_have_outputs,
    plan_outliving_job_deletions,
)
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterJobListRow
from gridbridge.model.transfer.claim_and_guard import FENCED
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferActKind
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferOutcome
from tests.decisions.transfer.test_transfer_policy import NAME, NOON, a_row, a_situation, a_snapshot, a_transfer, second
from tests.states import job_state

ENDED = a_transfer(closed_at=NOON)


@pytest.mark.parametrize(
    ("letters", "at_s", "expected"),
    [
        ("r", 2, False),
        ("r", 60, False),
        ("r", 601, True),
        ("Rq", 1, True),
        ("hRq", 1, True),
        ("Rq", 0, False),
        ("Rt", 9, False),
        ("Rr", 9, False),
        ("Rr", 11, True),
        ("dRr", 60, False),
        ("dr", 601, False),
        ("", 601, False),
    ],
    ids=[
        *("its end is not heard of yet", "a long epilog", "longer than any epilog", "put back", "put back and held"),
        *("put back, in an answer from before the end", "starts again, just now", "runs again, just now"),
        *("runs again", "deleted already", "deleted already, long ago", "gone"),
    ],
)
def test_a_remote_job_that_outlives_its_recorded_end_is_deleted_after_a_grace(
    letters: str, at_s: float, expected: bool
) -> None:
    actions = list(plan_outliving_job_deletions([ENDED], a_situation(remote=letters, at_s=at_s)))

    assert [action.act for action in actions] == ([TransferActKind.DELETE_REMOTE] if expected else [])


def test_the_deletion_of_an_outliving_remote_job_names_its_listed_state() -> None:
    [action] = plan_outliving_job_deletions([ENDED], a_situation(remote="Rr"))

    assert action.why == "the job has ended, but beta lists the job as Rr"


@pytest.mark.parametrize(
    ("transfer", "at_s", "remote", "expected"),
    [
        (ENDED, 60, "", True),
        (ENDED, 60, "r", False),
        (ENDED, 60, "Rr", False),
        (ENDED, 0, "", False),
        (ENDED, 60, None, False),
        (ENDED.but(owner="bob"), 60, "r", True),
    ],
    ids=["gone", "listed", "runs again", "an early answer", "no answer", "another's job"],
)
def test_only_a_fresh_job_list_without_the_job_counts_as_unlisted(
    transfer: Transfer, at_s: float, remote: str | None, expected: bool
) -> None:
    assert is_remote_job_unlisted(transfer, a_situation(remote=remote, at_s=at_s)) == expected


@pytest.mark.parametrize("letters", ["qw", "hqw"])
@pytest.mark.parametrize(
    ("name", "owner", "expected"),
    [(ENDED.name, ENDED.owner, True), (ENDED.name, "bob", False), ("gb.alpha.99.0.1", ENDED.owner, False)],
    ids=["its own", "another's", "of another transfer"],
)
def test_the_copy_that_oar_makes_of_a_job_that_failed_to_launch_is_deleted(
    letters: str, name: str, owner: str, expected: bool
) -> None:
    situation = a_situation(remote="")
    copy = ClusterJobListRow(job_id=99, name=name, owner=owner, state=job_state(letters))
    remote = replace(situation.snapshots["beta"], copies=(copy,))
    seen = replace(situation, snapshots={**situation.snapshots, "beta": remote})

    found = [action.act for action in plan_outliving_job_deletions([ENDED], seen)]
    assert found == ([TransferActKind.DELETE_REMOTE] if expected else [])
    assert is_remote_job_unlisted(ENDED, seen) is not expected


def test_a_job_of_another_owner_under_the_same_id_is_not_deleted() -> None:
    assert list(plan_outliving_job_deletions([ENDED.but(owner="bob")], a_situation(remote="Rr"))) == []


@pytest.mark.parametrize(
    ("outcome", "desired", "expected"),
    [
        (TransferOutcome.EXIT, "", True),
        (TransferOutcome.SIGNAL, DesiredLocalJobState.RUNNING, True),
        (TransferOutcome.EXIT, DesiredLocalJobState.DEAD, False),
        (TransferOutcome.ERROR, "", True),
        ("", "", False),
    ],
    ids=["it exited", "a signal ended it", "deleted at home", "its end is lost", "it has none"],
)
def test_the_remote_folder_may_hold_outputs_unless_the_job_was_deleted_at_home(
    outcome: str, desired: str, expected: bool
) -> None:
    ended = ENDED.but(desired=desired, verdict=TransferMessage(outcome=outcome) if outcome else None)

    assert may_remote_folder_have_outputs(ended) == expected


def test_a_job_that_lost_its_claim_has_no_outputs() -> None:
    fenced = TransferMessage(outcome=TransferOutcome.REQUEUE, claim=FENCED)

    assert not may_remote_folder_have_outputs(ENDED.but(verdict=fenced))


def a_held(**values: object) -> TransferDecisionInputs:
    row = a_row(40, "hqw", **({"name": NAME} | values))
    return TransferDecisionInputs(
        home="alpha", now=second(61), snapshots={"beta": a_snapshot("beta", 60, row)}, asleep=frozenset()
    )


@pytest.mark.parametrize(
    ("transfers", "situation", "why"),
    [
        ([a_transfer()], a_held(), ""),
        ([a_transfer(remote_id=0)], a_held(), ""),
        ([a_transfer(remote_id=39)], a_held(), "the transfer has recorded another job"),
        ([], a_held(since=second(0)), "no transfer with the job's name is open"),
        ([], a_held(since=second(1)), ""),
        ([], a_held(since=None), ""),
        ([], a_held(since=second(0), name="gb.gamma.7.0.1"), ""),
        ([], a_held(since=second(0), name="gb.alpha.x"), ""),
        ([], a_held(since=second(0), name="sleep"), ""),
        ([a_transfer(remote_id=39, owner="bob")], a_held(since=second(9)), ""),
        ([a_transfer(remote_id=0, owner="bob")], a_held(since=second(0)), "no transfer with the job's name is open"),
    ],
    ids=[
        *("recorded", "being submitted", "a second one", "nobody's", "nobody's and young", "without age"),
        *("of another home", "nearly our name", "any job", "another claims it", "another protects it"),
    ],
)
def test_a_held_job_under_a_transfer_name_that_no_transfer_recorded_is_an_orphan(
    transfers: list[Transfer], situation: TransferDecisionInputs, why: str
) -> None:
    assert [each.why for each in find_orphan_jobs(transfers, situation)] == ([why] if why else [])


@pytest.mark.parametrize("letters", ["r", "qw", "dhqw", "t", "s"])
def test_a_job_that_is_not_held_is_no_orphan(letters: str) -> None:
    row = a_row(40, letters, name=NAME)
    situation = replace(a_held(), snapshots={"beta": a_snapshot("beta", 60, row)})

    assert list(find_orphan_jobs([], situation)) == []

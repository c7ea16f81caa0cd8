"""Which guards have to be put back at home, while their jobs are away."""

import pytest

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    jobs_with_guard_besides_hold,
    missing_home_start_guard,
    qresub_jobs_with_copied_guard,
    transfers_lacking_home_hold,
)
from gridbridge.model.job_request import FAR_S, OWN_JOB, JobRequest
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState
from tests.decisions.transfer.test_transfer_policy import NAME, VERDICT, a_row, a_snapshot, a_transfer

TASK = "gb.alpha.7.3.1"
OTHER = JobRequest(owner="alice")
KEPT = OTHER.but(start=FAR_S)
OURS = ("transfer-beta",)


@pytest.mark.parametrize(
    ("transfer", "letters", "expected"),
    [
        (a_transfer(), "r", True),
        (a_transfer(), "s", True),
        (a_transfer(), "hr", False),
        (a_transfer(), "Rq", False),
        (a_transfer(), "", False),
        (a_transfer(guard=HomeStartGuard.START), "r", False),
        (a_transfer(guard=HomeStartGuard.NONE), "r", False),
        (a_transfer(verdict=VERDICT), "r", False),
        (a_transfer(desired=DesiredLocalJobState.DEAD), "r", False),
        (a_transfer(pinned=True), "r", False),
    ],
    ids=[
        *("released", "released, suspended", "held", "put back", "gone", "has a start time", "needs none", "ends"),
        *("is deleted", "is adopted"),
    ],
)
def test_a_running_task_without_its_hold_must_be_held_again(transfer: Transfer, letters: str, expected: bool) -> None:
    rows = [a_row(7, letters)] if letters else []

    assert transfers_lacking_home_hold([transfer], a_snapshot("alpha", 9, *rows)) == ({NAME} if expected else set())


def test_a_home_job_list_from_before_the_last_change_shows_no_missing_guard() -> None:
    held, other = a_transfer(), a_transfer(guard=HomeStartGuard.START)
    for seconds, expected in ((0, False), (1, True)):
        seen = a_snapshot("alpha", seconds, a_row(7, "r"))

        assert bool(transfers_lacking_home_hold([held], seen)) == expected
        assert bool(jobs_with_guard_besides_hold([other], seen)) == expected


def test_jobs_with_guards_other_than_a_hold_are_queried_once_each() -> None:
    tasks = [a_transfer(name=f"gb.alpha.8.{task}.1", guard=HomeStartGuard.NONE) for task in (1, 2)]
    every = (*tasks, a_transfer(guard=HomeStartGuard.START), a_transfer(name="gb.alpha.9.0.1"))
    rows = [a_row(job, "r") for job in (7, 8, 9)]

    assert jobs_with_guard_besides_hold(every, a_snapshot("alpha", 9, *rows)) == (7, 8)


@pytest.mark.parametrize(
    ("transfer", "kept", "expected"),
    [
        (a_transfer(guard=HomeStartGuard.START), KEPT, ""),
        (a_transfer(guard=HomeStartGuard.START), OTHER, HomeStartGuard.START),
        (a_transfer(guard=HomeStartGuard.START), OTHER.but(owner="bob"), ""),
        (a_transfer(guard=HomeStartGuard.NONE), OTHER.but(queues="transfer-beta"), ""),
        (a_transfer(guard=HomeStartGuard.NONE), OTHER.but(hard=(("remote", "1"),)), ""),
        (a_transfer(guard=HomeStartGuard.NONE), KEPT, HomeStartGuard.START),
        (a_transfer(guard=HomeStartGuard.NONE, name=TASK), KEPT, HomeStartGuard.HOLD),
    ],
    ids=[
        *("a start time that is ours", "another start time", "another's job", "still needs none"),
        *("still asks to leave", "could start here by now", "a task that could start here by now"),
    ],
)
def test_a_guard_that_the_job_owner_removed_is_restored(transfer: Transfer, kept: JobRequest, expected: str) -> None:
    assert missing_home_start_guard(transfer, kept, OURS) == expected


def test_a_waiting_job_with_the_guard_of_another_job_is_a_qresub_copy() -> None:
    """A job that is away is no copy, because its owner can change the job's context."""
    waiting = {number: KEPT.but(context=((OWN_JOB, str(of)),)) for number, of in ((7, 7), (8, 7), (9, 7), (10, 0))}

    assert qresub_jobs_with_copied_guard(waiting, jobs_away=(7, 9)) == (8,)

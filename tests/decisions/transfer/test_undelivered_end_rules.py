"""An end that nobody heard at home is kept for the next starter."""

from datetime import timedelta

import pytest

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    does_ended_task_wait_at_home,
    ended_transfer_of_requeued_job,
    is_ended_task_gone_from_home,
    may_home_have_missed_task_end,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferOutcome
from tests.decisions.transfer.test_transfer_policy import NAME, NOON, VERDICT, a_row, a_snapshot, a_transfer

ENDED = a_transfer(verdict=VERDICT, closed_at=NOON)


def home(letters: str, at_s: float = 1, owner: str = "alice") -> ClusterSnapshot:
    rows = [a_row(7, letters, owner=owner)] if letters else []
    return a_snapshot("alpha", at_s, *rows)


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        (home("hRq"), True),
        (home("hr"), False),
        (home("Rq"), True),
        (home(""), False),
        (home("hRq", at_s=-1), False),
        (home("hRq", owner="bob"), False),
    ],
    ids=["put back", "not given up", "without a hold", "gone", "before it ended", "another's"],
)
def test_an_ended_task_that_waits_again_at_home_missed_its_end(local: ClusterSnapshot, expected: bool) -> None:
    assert does_ended_task_wait_at_home(ENDED, local) == expected


@pytest.mark.parametrize(
    ("local", "expected"),
    [(home(""), True), (home("hr"), False), (home("hRq"), False), (home("", at_s=-1), False)],
    ids=["gone", "still listed", "put back", "before it ended"],
)
def test_a_home_task_that_is_unlisted_after_its_end_is_gone(local: ClusterSnapshot, expected: bool) -> None:
    assert is_ended_task_gone_from_home(ENDED, local) == expected


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (ENDED, True),
        (ENDED.but(verdict=VERDICT.but(exit_status="99")), False),
        (ENDED.but(verdict=VERDICT.but(exit_status="100")), False),
        (ENDED.but(verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.SIGNAL, signal="9")), True),
        (ENDED.but(verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.REQUEUE)), False),
        (ENDED.but(verdict=TransferMessage(transfer=NAME, outcome=TransferOutcome.ERROR)), False),
        (ENDED.but(verdict=None), False),
        (ENDED.but(desired=DesiredLocalJobState.DEAD), False),
    ],
    ids=["exit", "99", "100", "signal", "requeue", "error", "no end", "deleted"],
)
def test_only_exits_and_signals_may_be_missed_at_home(ended: Transfer, expected: bool) -> None:
    """The starter releases the hold of a task that runs again or fails."""
    assert may_home_have_missed_task_end(ended) == expected


ASK = TransferMessage(transfer="gb.alpha.7.0.0", restarted="yes")


@pytest.mark.parametrize(
    ("attempts", "message", "expected"),
    [
        ((ENDED,), ASK, NAME),
        ((ENDED, ENDED.but(name="gb.alpha.7.0.2")), ASK, "gb.alpha.7.0.2"),
        ((ENDED,), ASK.but(restarted=""), ""),
        ((ENDED.but(closed_at=None),), ASK, ""),
        ((ENDED, ENDED.but(name="gb.alpha.7.0.2", desired=DesiredLocalJobState.DEAD)), ASK, ""),
        ((ENDED.but(verdict=VERDICT.but(exit_status="99")),), ASK, ""),
        ((), ASK, ""),
    ],
    ids=[
        *("its end was not heard", "that of the last attempt", "not put back", "open", "the last one was deleted"),
        *("to run again", "never sent"),
    ],
)
def test_a_rescheduled_task_receives_the_recorded_end_of_its_last_attempt(
    attempts: tuple[Transfer, ...], message: TransferMessage, expected: str
) -> None:
    found = ended_transfer_of_requeued_job(attempts, message)

    assert (found.name if found else "") == expected


def test_a_transfer_without_a_closing_time_has_not_ended() -> None:
    still_open = ENDED.but(closed_at=None)

    assert not is_ended_task_gone_from_home(still_open, a_snapshot("alpha", timedelta(days=1).total_seconds()))

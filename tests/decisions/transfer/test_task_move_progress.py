"""How far a move of a task that waits away has come, and what keeps it from being done."""

from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState, TransferMessage, TransferOutcome
from tests.decisions.transfer.test_recall_policy import NOW, waiting
from tests.states import job_state

HOME_ROW = {"job_id": 7, "name": "x", "owner": "alice"}


def situation(there: str = "qw", here: str = "", queue: str = "", age_s: float = 1) -> TransferDecisionInputs:
    """Return what beta and home list of the task; no letters: nothing."""
    beta = {7: (ClusterJobListRow(**HOME_ROW, state=job_state(there)),)} if there else {}
    home = {7: (ClusterJobListRow(**HOME_ROW, state=job_state(here), queue=queue),)} if here else {}
    return TransferDecisionInputs(
        home="alpha",
        now=NOW,
        snapshots={
            name: ClusterSnapshot(
                cluster=name, taken_at=NOW - timedelta(seconds=age_s), jobs=jobs, pending=0, free_slots=0
            )
            for name, jobs in (("beta", beta), ("alpha", home))
        },
        asleep=frozenset({"w7"}),
        queues=frozenset({"transfer-beta", "transfer-delta"}),
    )


@pytest.mark.parametrize(
    ("changes", "there", "expected"),
    [
        ({}, "qw", ""),
        ({}, "", ""),
        ({}, "r", "the task has started there"),
        ({"closed_at": NOW}, "", "the task has ended there"),
        ({"verdict": TransferMessage(outcome=TransferOutcome.EXIT)}, "", "the task has ended there"),
        ({"desired": DesiredLocalJobState.DEAD}, "qw", "the task is to be dead"),
        ({"desired": DesiredLocalJobState.SUSPENDED}, "qw", "the task is to be suspended"),
    ],
    ids=["it waits", "an answer without it", "it runs", "over", "ended", "deleted", "suspended"],
)
def test_a_started_or_ended_or_deleted_or_suspended_task_is_not_moved(
    changes: dict[str, Any], there: str, expected: str
) -> None:
    assert recall_policy.why_task_move_is_impossible(waiting(**changes), situation(there)) == expected


@pytest.mark.parametrize(
    ("transfer", "there", "age_s", "expected"),
    [
        (waiting(), "qw", 1, True),
        (waiting(), "hqw", 1, False),
        (waiting(), "qw", 90, False),
        (waiting(wake="w8"), "qw", 1, False),
        (waiting(minutes=0.05), "qw", 1, False),
    ],
    ids=["it waits", "held", "an old answer", "its starter is busy", "it was just released"],
)
def test_a_task_is_recallable_while_a_fresh_job_list_shows_it_waiting(
    transfer: Transfer, there: str, age_s: float, expected: bool
) -> None:
    assert recall_policy.is_waiting_task_recallable(transfer, situation(there, age_s=age_s)) is expected


@pytest.mark.parametrize(
    ("minutes", "here", "queue", "expected"),
    [
        (0, "", "", ""),
        (1, "qw", "", ""),
        (1, "r", "all.q@n1", "the task runs at home"),
        (1, "r", "transfer-delta@n1", ""),
        (1, "", "", "the task has ended at home"),
        (11, "qw", "", "no start within 600 s: the task may go back"),
    ],
    ids=[
        *("home has not answered since", "it waits at home", "it runs at home", "it is about to be sent on", "gone"),
        "for long",
    ],
)
def test_a_move_ends_when_the_recalled_task_starts_or_ends_at_home(
    minutes: float, here: str, queue: str, expected: str
) -> None:
    closed = waiting(closed_at=NOW - timedelta(minutes=minutes))

    assert recall_policy.describe_move_end_at_home(closed, situation("", here, queue)) == expected

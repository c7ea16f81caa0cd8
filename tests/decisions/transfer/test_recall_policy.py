"""Which waiting tasks come home, how many at once, and what is said of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from tests.decisions.transfer.test_transfer_policy import a_transfer
from tests.states import job_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = TransferQueueSection(cluster="beta", pending_limit=9, slots=9, recall_wait_s=600)


def waiting(job: int = 7, minutes: float = 12, **values: object) -> Transfer:
    """Return a transfer whose job waits at beta, under its own number, for so long."""
    begun = NOW - timedelta(minutes=minutes)
    states = {"local_state": UNSEEN, "remote_state": "qw", "since": begun, "created_at": begun, "updated_at": NOW}
    long = a_transfer(name=f"gb.alpha.{job}.0.1", wake=f"w{job}", remote_id=job, **states)
    return long.but(**values)


def due(
    *transfers: Transfer,
    free: int = 9,
    letters: str = "qw",
    slots: int = 1,
    trouble: str = "",
    age_s: float = 1,
    queue: TransferQueueSection = QUEUE,
) -> list[tuple[int, str]]:
    rows = {
        one.remote_id: (
            ClusterJobListRow(job_id=one.remote_id, name="x", owner=one.owner, state=job_state(letters), slots=slots),
        )
        for one in transfers
    }
    beta = ClusterSnapshot(cluster="beta", taken_at=NOW - timedelta(seconds=age_s), jobs=rows, pending=40, free_slots=0)
    situation = TransferDecisionInputs(
        home="alpha", now=NOW, snapshots={"beta": beta}, asleep=frozenset(f"w{one.remote_id}" for one in transfers)
    )
    troubles = {"beta": trouble} if trouble else {}
    found = recall_policy.plan_recalls_into_home_slots(transfers, situation, {"transfer-beta": queue}, troubles, free)
    return [(one.transfer.remote_id, one.why) for one in found]


def test_a_task_that_waited_too_long_is_recalled_with_wait_and_slots_in_the_reason() -> None:
    assert due(waiting(), free=3) == [
        (
            7,
            "recalled from beta: the task waited there for 12 min, 10 min is the limit, the task needs 1 slot"
            " and 3 are free here (40 waiting and 0 free there)",
        )
    ]


@pytest.mark.parametrize(
    "one",
    [
        waiting(minutes=9),
        waiting(phase=StarterPhase.HELD),
        waiting(desired=DesiredLocalJobState.SUSPENDED),
        waiting(desired=DesiredLocalJobState.DEAD),
        waiting(missed_polls=1),
        waiting(verdict=TransferMessage(outcome=TransferOutcome.EXIT)),
        waiting(wake="awake"),
        waiting(queue="transfer-gone"),
    ],
    ids=["short", "unreleased", "suspended", "dead", "missing", "ended", "no starter", "no queue"],
)
def test_a_task_that_is_not_a_released_waiting_job_is_not_recalled(one: Transfer) -> None:
    assert due(one) == []


@pytest.mark.parametrize("letters", ["r", "hqw", "t", "dr", "Eqw"])
def test_only_a_waiting_remote_job_without_hold_or_error_is_recalled(letters: str) -> None:
    assert due(waiting(), letters=letters) == []


def test_a_stale_remote_job_list_recalls_no_task() -> None:
    assert due(waiting(), age_s=61) == []


def test_a_queue_with_recall_wait_s_0_recalls_no_task() -> None:
    assert due(waiting(), queue=replace(QUEUE, recall_wait_s=0), trouble="beta is drained") == []


def test_a_drained_cluster_loses_all_its_waiting_tasks() -> None:
    [(_, why)] = due(waiting(minutes=0.5), trouble="beta is drained")

    assert "beta is drained, and the task waited there for 30 s" in why


def test_the_longest_waiting_tasks_are_recalled_first_while_slots_are_free() -> None:
    found = due(waiting(1, 20), waiting(2, 40), waiting(3, 30), free=2)

    assert [job for job, _ in found] == [2, 3]


def test_owners_take_turns_in_recalls_however_long_tasks_of_one_owner_waited() -> None:
    his = [waiting(job, 30 - job, owner="bob") for job in (1, 2, 3)]

    assert [job for job, _ in due(*his, waiting(9), free=2)] == [1, 9]


def test_a_task_is_recalled_only_if_all_its_slots_are_free() -> None:
    assert due(waiting(), free=3, slots=4) == []

"""Recalls as they are kept: the same rows bring the same tasks home again."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import poller_decision_journal
from tests.decisions.transfer.test_transfer_policy import a_row, a_situation, a_snapshot, a_transfer, second

RECALLED = TransferQueueSection(cluster="beta", pending_limit=9, slots=9, recall_wait_s=1)


@pytest.fixture
def database(tmp_path: Path) -> StateFile:
    return StateFile.open(f"sqlite:///{tmp_path}/state.db")


def test_journalled_recalls_replay_to_the_same_recalls(database: StateFile) -> None:
    """Tasks that needed more slots than were free are journalled too."""
    transfers = [waiting(job, slots) for job, slots in ((1, 1), (2, 9), (3, 2), (4, 9))]
    situation = a_waiting_situation([one for one, _ in transfers], dict(transfers))
    queues = {"transfer-beta": RECALLED, "other": RECALLED}
    troubles = {"beta": "beta is drained"}
    away = [one for one, _ in transfers]
    recalls = recall_policy.plan_recalls_into_home_slots(away, situation, queues, troubles, 99)
    wanted = [recall.transfer for recall in recalls]
    due = tuple(recall_policy.plan_recalls_into_home_slots(wanted, situation, queues, troubles, 3))
    DecisionJournal(database).keep(
        poller_decision_journal.recall_journal_entry(wanted, due, situation, queues, troubles, 3)
    )

    (kept,) = DecisionJournal(database).last(9)
    assert kept.program == poller_decision_journal.RECALL_PROGRAM
    assert [one.transfer.remote_id for one in due] == [1, 3]
    assert kept.inputs["actions"] == [f"recall {one.transfer.name}: {one.why}" for one in due]
    assert poller_decision_journal.replay_recalls(kept.inputs) == kept.inputs["actions"]
    assert len(kept.inputs["transfers"]) == 3  # type: ignore[arg-type]
    assert poller_decision_journal.replay_recalls({**kept.inputs, "free": 0}) == []


def waiting(job: int, slots: int) -> tuple[Transfer, int]:
    """Return a transfer whose job waits at beta, and the slots that it needs."""
    one = a_transfer(name=f"gb.alpha.{job}.0.1", remote_id=job, remote_state="qw", since=second(job))
    return one.but(wake=f"w{job}"), slots


def a_waiting_situation(transfers: list[Transfer], slots: dict[Transfer, int]) -> TransferDecisionInputs:
    rows = [a_row(one.remote_id, "qw", slots=slots[one]) for one in transfers]
    beta = a_snapshot("beta", 60, *rows)
    asleep = frozenset(one.wake for one in transfers)
    return replace(a_situation(), snapshots={"beta": beta}, asleep=asleep, now=second(61))

"""Which tasks come home from a cluster that does not answer, and which jobs wait for a grant."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.remote_accounting_verdicts import FENCED_STATUS, home_verdict_from_accounting
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.transfer.claim_and_guard import FENCED, HOME, JOB
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferOutcome,
)
from tests.decisions.transfer.test_recall_policy import NOW, QUEUE, waiting
from tests.states import job_state

BY_FILE, BY_GRANT = "file.t0", "grant.t0"


def claimed(**values: object) -> Transfer:
    """Return a transfer with a claim whose job waited there a minute ago."""
    return waiting(minutes=1).but(**({"claim": BY_FILE, "updated_at": NOW} | values))


def situation(one: Transfer, silent_s: float = 301, letters: str = "qw", slots: int = 1) -> TransferDecisionInputs:
    """Return a situation in which beta last answered so long ago."""
    there = ClusterJobListRow(job_id=7, name="x", owner="alice", state=job_state(letters))
    here = ClusterJobListRow(job_id=7, name="x", owner="alice", state=job_state("hr"), slots=slots)
    silent_since = NOW - timedelta(seconds=silent_s)
    beta = ClusterSnapshot(cluster="beta", taken_at=silent_since, jobs={7: (there,)}, pending=0, free_slots=0)
    alpha = ClusterSnapshot(cluster="alpha", taken_at=NOW, jobs={7: (here,)}, pending=0, free_slots=9)
    return TransferDecisionInputs(
        home="alpha", now=NOW, snapshots={"alpha": alpha, "beta": beta}, asleep=frozenset({one.wake})
    )


def due(
    one: Transfer, free: int = 9, queue: TransferQueueSection = QUEUE, seen: TransferDecisionInputs | None = None
) -> list[str]:
    old = one.but(created_at=NOW - timedelta(hours=1))
    queues = {"transfer-beta": queue}
    return [
        each.why for each in recall_policy.plan_recalls_into_home_slots([old], seen or situation(old), queues, {}, free)
    ]


def test_a_task_with_a_claim_is_recalled_from_a_silent_cluster() -> None:
    assert due(claimed(), free=3) == [
        "recalled from beta: beta has not answered for 5 min, 5 min is the limit,"
        " the task needs 1 slot and 3 are free here"
    ]


def test_silence_counts_only_since_the_service_last_started_to_query() -> None:
    one = claimed().but(created_at=NOW - timedelta(hours=1))
    seen = situation(one, silent_s=3600)

    assert due(claimed(), seen=replace(seen, since=NOW - timedelta(seconds=299))) == []
    assert due(claimed(), seen=replace(seen, since=NOW - timedelta(seconds=301))) != []


@pytest.mark.parametrize(
    "one",
    [
        claimed(claim=""),
        claimed(claimed=JOB),
        claimed(remote_state=job_state("r")),
        claimed(phase=StarterPhase.SUBMITTING),
        claimed(desired=DesiredLocalJobState.SUSPENDED),
        claimed(desired=DesiredLocalJobState.DEAD),
        claimed(verdict=TransferMessage(outcome=TransferOutcome.EXIT)),
        claimed(wake="awake"),
        claimed(queue="transfer-gone"),
    ],
    ids=[
        *("no claim", "the job has it", "running", "unsubmitted", "suspended", "dead"),
        *("ended", "no starter", "no queue"),
    ],
)
def test_a_task_without_a_free_claim_is_not_recalled_from_a_silent_cluster(one: Transfer) -> None:
    assert due(one, seen=situation(waiting())) == []


def test_a_cluster_that_was_silent_for_a_short_time_keeps_its_tasks() -> None:
    one = claimed()

    assert due(one, seen=situation(one, silent_s=299)) == []


def test_a_recall_from_a_silent_cluster_needs_the_slots_of_the_home_task() -> None:
    one = claimed()

    assert due(one, free=3, seen=situation(one, slots=4)) == []
    assert due(one, free=4, seen=situation(one, slots=4)) != []


def test_a_queue_with_recall_wait_s_0_recalls_no_task_from_a_silent_cluster() -> None:
    assert due(claimed(), queue=replace(QUEUE, recall_wait_s=0)) == []


def test_after_a_restart_the_stored_answer_time_of_a_transfer_counts() -> None:
    one = claimed(seen_at=NOW - timedelta(seconds=310))
    known = replace(situation(one), snapshots={"alpha": situation(one).snapshots["alpha"]})

    assert "has not answered for 5 min" in due(one, seen=known)[0]


@pytest.mark.parametrize(
    ("one", "letters", "waits"),
    [
        (claimed(claim=BY_GRANT), "r", True),
        (claimed(claim=BY_GRANT), "qw", False),
        (claimed(claim=BY_GRANT, claimed=JOB), "r", False),
        (claimed(claim=BY_GRANT, claimed=HOME), "r", False),
        (claimed(claim=BY_GRANT, desired=DesiredLocalJobState.DEAD), "r", False),
        (claimed(claim=BY_GRANT, owner="bob"), "r", False),
        (claimed(claim=BY_FILE), "r", False),
    ],
    ids=["started", "waiting", "granted", "home's", "deleted", "another's", "by file"],
)
def test_only_a_started_job_with_an_undecided_claim_waits_for_a_grant(one: Transfer, letters: str, waits: bool) -> None:
    assert recall_policy.does_job_wait_for_claim_grant(one, situation(one, 1, letters)) is waits


@pytest.mark.parametrize(("who", "claim"), [("", FENCED), (JOB, "")], ids=["without a grant", "with one"])
def test_exit_status_199_means_fenced_only_for_a_job_without_a_grant(who: str, claim: str) -> None:
    end = JobEnd(exit_status=FENCED_STATUS, host="delta-n1", user_s=0, system_s=0)
    verdict = home_verdict_from_accounting(claimed(claim=BY_GRANT, claimed=who), end)

    assert (verdict.claim, verdict.exit_status) == (claim, "" if claim else "99")

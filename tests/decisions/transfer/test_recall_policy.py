"""Which waiting tasks are recalled or moved, and why."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.remote_accounting_verdicts import FENCED_STATUS, home_verdict_from_accounting
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.job_and_queue_states import UNSEEN
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
from tests.decisions.transfer.test_transfer_policy import NOON, a_row, a_snapshot, a_transfer
from tests.states import job_state

QUEUE = TransferQueueSection(cluster="beta", pending_limit=9, slots=9, recall_wait_s=600)


def waiting(job: int = 7, minutes: float = 12, **values: object) -> Transfer:
    """Return a transfer whose job has waited at beta for `minutes`; its id is the local job number."""
    begun = NOON - timedelta(minutes=minutes)
    states = {"local_state": UNSEEN, "remote_state": "qw", "since": begun, "created_at": begun, "updated_at": NOON}
    long = a_transfer(name=f"gb.alpha.{job}.0.1", wake=f"w{job}", remote_id=job, **states)
    return long.with_changes(**values)


def due(
    *transfers: Transfer,
    free: int = 9,
    letters: str = "qw",
    slots: int = 1,
    trouble: str = "",
    age_s: float = 1,
    queue: TransferQueueSection = QUEUE,
) -> list[tuple[int, str]]:
    rows = (a_row(each.remote_id, letters, slots=slots, owner=each.owner) for each in transfers)
    beta = a_snapshot("beta", -age_s, *rows)
    asleep = frozenset(f"w{each.remote_id}" for each in transfers)
    situation = TransferSituation(home="alpha", now=NOON, snapshots={"beta": beta}, asleep=asleep)
    troubles = {"beta": trouble} if trouble else {}
    found = recall_policy.plan_recalls_into_home_slots(transfers, situation, {"transfer-beta": queue}, troubles, free)
    return [(one.transfer.remote_id, one.why) for one in found]


def test_a_task_that_waited_too_long_is_recalled_with_wait_and_slots_in_the_reason() -> None:
    rest = "the task needs 1 slot and 3 are free here (3 waiting and 4 free there)"
    limit = f"recalled from beta: the task waited there for 12 min; the limit is 10 min, {rest}"
    drained = f"recalled from beta: beta is drained, and the task waited there for 30 s, {rest}"

    assert due(waiting(), free=3) == [(7, limit)]
    assert due(waiting(minutes=0.5), free=3, trouble="beta is drained") == [(7, drained)]


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


@pytest.mark.parametrize(
    "settings",
    [
        *({"letters": letters} for letters in ("r", "hqw", "t", "dr", "Eqw")),
        {"age_s": 61},
        {"queue": replace(QUEUE, recall_wait_s=0), "trouble": "beta is drained"},
        {"free": 3, "slots": 4},
    ],
    ids=str,
)
def test_a_recall_needs_a_fresh_job_list_with_a_waiting_job_and_a_queue_with_recalls_and_all_slots(
    settings: dict[str, Any],
) -> None:
    assert due(waiting(), **settings) == []


def test_the_longest_waiting_tasks_are_recalled_first_while_slots_are_free() -> None:
    found = due(waiting(1, 20), waiting(2, 40), waiting(3, 30), free=2)

    assert [job for job, _ in found] == [2, 3]


def test_owners_take_turns_in_recalls_however_long_tasks_of_one_owner_waited() -> None:
    his = [waiting(job, 30 - job, owner="bob") for job in (1, 2, 3)]

    assert [job for job, _ in due(*his, waiting(9), free=2)] == [1, 9]


BY_FILE, BY_GRANT = "file.t0", "grant.t0"


def claimed(**values: object) -> Transfer:
    return waiting(minutes=1).with_changes(**({"claim": BY_FILE, "updated_at": NOON} | values))


def silent_situation(one: Transfer, silent_s: float = 301, letters: str = "qw", slots: int = 1) -> TransferSituation:
    """Return inputs in which beta answered `silent_s` seconds ago."""
    beta = a_snapshot("beta", -silent_s, a_row(7, letters))
    snapshots = {"alpha": a_snapshot("alpha", 0, a_row(7, "hr", slots=slots)), "beta": beta}
    return TransferSituation(home="alpha", now=NOON, snapshots=snapshots, asleep=frozenset({one.wake}))


def due_from_silent_cluster(
    one: Transfer, free: int = 9, queue: TransferQueueSection = QUEUE, seen: TransferSituation | None = None
) -> list[str]:
    old = one.with_changes(created_at=NOON - timedelta(hours=1))
    queues = {"transfer-beta": queue}
    return [
        each.why
        for each in recall_policy.plan_recalls_into_home_slots([old], seen or silent_situation(old), queues, {}, free)
    ]


def test_a_task_with_a_claim_is_recalled_from_a_silent_cluster() -> None:
    assert due_from_silent_cluster(claimed(), free=3) == [
        "recalled from beta: beta has not answered for 5 min; the limit is 5 min,"
        " the task needs 1 slot and 3 are free here"
    ]


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
    assert due_from_silent_cluster(one, seen=silent_situation(waiting())) == []


@pytest.mark.parametrize(
    ("silent_s", "queried_s", "slots", "free", "queue", "is_due"),
    [
        (299, 3600, 1, 9, QUEUE, False),
        (3600, 299, 1, 9, QUEUE, False),
        (3600, 301, 1, 9, QUEUE, True),
        (301, 3600, 4, 3, QUEUE, False),
        (301, 3600, 4, 4, QUEUE, True),
        (301, 3600, 1, 9, replace(QUEUE, recall_wait_s=0), False),
    ],
    ids=["short", "a new service", "long", "too few slots", "slots", "no recalls"],
)
def test_a_recall_from_a_silent_cluster_needs_long_silence_and_the_slots_of_the_home_task(
    silent_s: float, queried_s: float, slots: int, free: int, queue: TransferQueueSection, is_due: bool
) -> None:
    """Silence counts only since the service last started to query."""
    transfer = claimed()
    situation = silent_situation(transfer, silent_s, slots=slots)
    situation = replace(situation, since=NOON - timedelta(seconds=queried_s))

    assert bool(due_from_silent_cluster(transfer, free, queue, situation)) is is_due


def test_after_a_restart_the_stored_answer_time_of_a_transfer_counts() -> None:
    one = claimed(seen_at=NOON - timedelta(seconds=310))
    known = replace(silent_situation(one), snapshots={"alpha": silent_situation(one).snapshots["alpha"]})

    assert "has not answered for 5 min" in due_from_silent_cluster(one, seen=known)[0]


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
    assert recall_policy.does_job_wait_for_claim_grant(one, silent_situation(one, 1, letters)) is waits


@pytest.mark.parametrize(("who", "claim"), [("", FENCED), (JOB, "")], ids=["without a grant", "with one"])
def test_exit_status_199_means_fenced_only_for_a_job_without_a_grant(who: str, claim: str) -> None:
    end = JobEnd(exit_status=FENCED_STATUS, host="delta-n1", user_s=0, system_s=0)
    verdict = home_verdict_from_accounting(claimed(claim=BY_GRANT, claimed=who), end)

    assert (verdict.claim, verdict.exit_status) == (claim, "" if claim else "99")


def listed_situation(there: str = "qw", here: str = "", queue: str = "", age_s: float = 1) -> TransferSituation:
    """Return job lists of beta and home; an empty state means that the task is unlisted."""
    rows = {"beta": [a_row(7, there)] if there else [], "alpha": [a_row(7, here, queue=queue)] if here else []}
    return TransferSituation(
        home="alpha",
        now=NOON,
        snapshots={cluster: a_snapshot(cluster, -age_s, *listed) for cluster, listed in rows.items()},
        asleep=frozenset({"w7"}),
        queues=frozenset({"transfer-beta", "transfer-delta"}),
    )


@pytest.mark.parametrize(
    ("changes", "there", "expected"),
    [
        ({}, "qw", ""),
        ({}, "", ""),
        ({}, "r", "the task has started at the remote cluster"),
        ({"closed_at": NOON}, "", "the task has ended at the remote cluster"),
        ({"verdict": TransferMessage(outcome=TransferOutcome.EXIT)}, "", "the task has ended at the remote cluster"),
        ({"desired": DesiredLocalJobState.DEAD}, "qw", "the intended state of the task is dead"),
        ({"desired": DesiredLocalJobState.SUSPENDED}, "qw", "the intended state of the task is suspended"),
    ],
    ids=["it waits", "an answer without it", "it runs", "over", "ended", "deleted", "suspended"],
)
def test_a_started_or_ended_or_deleted_or_suspended_task_is_not_moved(
    changes: dict[str, Any], there: str, expected: str
) -> None:
    assert recall_policy.why_task_move_is_impossible(waiting(**changes), listed_situation(there)) == expected


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
    assert recall_policy.is_waiting_task_recallable(transfer, listed_situation(there, age_s=age_s)) is expected


@pytest.mark.parametrize(
    ("minutes", "here", "queue", "expected"),
    [
        (0, "", "", ""),
        (1, "qw", "", ""),
        (1, "r", "all.q@n1", "the task runs at home"),
        (1, "r", "transfer-delta@n1", ""),
        (1, "", "", "the task has ended at home"),
        (11, "qw", "", "not started at home within 600 s: the task may be sent again"),
    ],
    ids=[
        *("home has not answered since", "it waits at home", "it runs at home", "it is about to be sent on", "gone"),
        "for long",
    ],
)
def test_a_move_ends_when_the_recalled_task_starts_or_ends_at_home(
    minutes: float, here: str, queue: str, expected: str
) -> None:
    closed = waiting(closed_at=NOON - timedelta(minutes=minutes))

    assert recall_policy.describe_move_end_at_home(closed, listed_situation("", here, queue)) == expected

"""The breaker closes the queues to a cluster at which jobs fail fast, and opens them for a probe job."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.decisions.transfer import circuit_breaker
from gridbridge.decisions.transfer.circuit_breaker import (
    CLUSTER_FAULTS,
    BreakerEvidence,
    BreakerEvidenceKind,
    describe_failure_cause,
)
from gridbridge.model.job_and_queue_states import UNSEEN
from gridbridge.model.published_status_and_reports import PublishedClusterBreaker, PublishedFastJobFailure
from gridbridge.model.transfer.transfer_config_sections import BreakerSection
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer
from gridbridge.model.transfer_messages_in_spool import (
    CAUSES,
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferOutcome,
)
from tests.decisions.transfer.test_transfer_policy import a_row, a_snapshot, a_transfer
from tests.states import job_state

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = BreakerSection(failures=3, pause_s=60, pause_max_s=150)
NONE = PublishedClusterBreaker(cluster="beta")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def transfer(job: int = 7, **values: object) -> Transfer:
    begun = a_transfer(
        name=f"gb.alpha.{job}.0.1", phase=StarterPhase.SUBMITTING, created_at=NOW, updated_at=after(5), remote_id=0
    )
    return begun.with_changes(**{"local_state": UNSEEN, "remote_state": UNSEEN} | values)


def failure_of(job: int, owner: str = "alice", was_accepted: bool = False) -> BreakerEvidence:
    begun = transfer(job, owner=owner, updated_at=NOW, remote_id=40 if was_accepted else 0)
    return BreakerEvidence(sign=BreakerEvidenceKind.FAILED, transfer=begun, cause=TransferFailureCause.UNREACHED)


def failed(
    *jobs: int, since: PublishedClusterBreaker = NONE, at: datetime = NOW, owner: str = "alice"
) -> PublishedClusterBreaker:
    return fail((failure_of(job, owner) for job in jobs), since, at)


def fail(
    news: Iterable[BreakerEvidence], since: PublishedClusterBreaker = NONE, at: datetime = NOW, *others: Transfer
) -> PublishedClusterBreaker:
    for one in news:
        since = circuit_breaker.update_breaker(since, one, others, at, POLICY)
    return since


def ended(outcome: str, cause: str = "", **values: str) -> dict[str, object]:
    verdict = TransferMessage(outcome=outcome, cause=cause, reason="tried in vain: no", **values)
    return {"verdict": verdict, "cause": cause, "remote_id": 4}


TRIED = {"cause": TransferFailureCause.UNREACHED, "reason": "tried in vain: no answer"}
OVER = {"closed_at": after(5)}
KILLED = ended(TransferOutcome.SIGNAL, TransferFailureCause.LOST, signal="9")


@pytest.mark.parametrize(
    ("news", "cause"),
    [
        (TRIED, TransferFailureCause.UNREACHED),
        ({"cause": TransferFailureCause.DENIED, **OVER}, TransferFailureCause.DENIED),
        (ended(TransferOutcome.ERROR, TransferFailureCause.BLOCKED), TransferFailureCause.BLOCKED),
        (ended(TransferOutcome.ERROR, TransferFailureCause.VANISHED), TransferFailureCause.VANISHED),
        (ended(TransferOutcome.ERROR, TransferFailureCause.HOST), TransferFailureCause.HOST),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.LOST), TransferFailureCause.LOST),
        (KILLED, TransferFailureCause.LOST),
        (KILLED | {"remote_state": job_state("r")}, ""),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.PREEMPTED), ""),
        (ended(TransferOutcome.SIGNAL, TransferFailureCause.PREEMPTED, signal="9"), ""),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.LOST) | {"remote_state": job_state("r")}, ""),
        (ended(TransferOutcome.ERROR, TransferFailureCause.JOB), ""),
        (ended(TransferOutcome.ERROR, TransferFailureCause.UNKNOWN), ""),
        (ended(TransferOutcome.ERROR), ""),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.UNGRANTED), ""),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.FENCED), ""),
        (ended(TransferOutcome.REQUEUE, TransferFailureCause.RECALLED), ""),
        (ended(TransferOutcome.EXIT, exit_status="1"), ""),
        (ended(TransferOutcome.SIGNAL, signal="9"), ""),
        ({"cause": TransferFailureCause.REFUSED, **OVER}, ""),
        ({"cause": TransferFailureCause.UNMAPPABLE, **OVER}, ""),
        ({"cause": TransferFailureCause.BARRED}, ""),
        ({"cause": TransferFailureCause.FILES}, ""),
        ({"cause": TransferFailureCause.HERE}, ""),
        (TRIED | {"desired": DesiredLocalJobState.DEAD}, ""),
        (TRIED | {"updated_at": after(61)}, ""),
        (TRIED | {"phase": StarterPhase.HELD, "remote_id": 4}, ""),
        ({"reason": "being submitted to beta; tried in vain: please call 555-1234"}, ""),
        ({"reason": "beta refused it: no", **OVER}, ""),
    ],
)
def test_only_fast_failures_caused_by_the_cluster_count_against_the_cluster(
    news: dict[str, object], cause: str
) -> None:
    assert circuit_breaker.fast_failure_cause(transfer(), transfer(**news), POLICY) == cause


def test_a_repeated_failure_cause_is_no_new_breaker_evidence() -> None:
    told = transfer(**TRIED)

    assert (
        circuit_breaker.breaker_evidence_of_transfer(told, told.with_changes(reason="tried in vain: nothing"), POLICY)
        is None
    )


@pytest.mark.parametrize("cause", sorted(CLUSTER_FAULTS))
def test_every_cluster_fault_has_its_own_description_that_names_the_cluster(cause: str) -> None:
    assert "beta" in describe_failure_cause(cause, "beta") != describe_failure_cause("", "beta")
    assert describe_failure_cause("", "beta") == "these jobs failed at beta"
    assert cause in CAUSES


@pytest.mark.parametrize(
    ("job", "owner", "letters", "queue", "tasks", "is_proved"),
    [
        (7, "alice", "r", "transfer-beta@alpha-master", (), True),
        (7, "alice", "hqw", "", (), False),
        (7, "alice", "Rq", "", (), True),
        (7, "alice", "Eqw", "", (), True),
        (8, "alice", "Eqw", "", (), False),
        (7, "alice", "Eqw", "", (range(1, 3),), False),
    ],
    ids=[*("its own", "held back", "put back", "in error"), *("another job", "an array, of which it names no task")],
)
def test_the_home_job_list_must_show_the_task_with_its_owner_in_its_transfer_queue(
    job: int, owner: str, letters: str, queue: str, tasks: tuple[range, ...], is_proved: bool
) -> None:
    """A restarted or failed task has no queue in the list, but had one before."""
    home = a_snapshot("alpha", 0, a_row(job, letters, owner=owner, queue=queue, tasks=tasks))

    assert circuit_breaker.is_owner_task_in_home_queue(transfer(7), home) is is_proved


OF_BOB = {"owner": "bob", "uid": 1002}


@pytest.mark.parametrize(
    ("other", "is_closed"),
    [
        (transfer(9, listed=OwnerSeenInHomeJobList.YES, **OF_BOB), False),
        (transfer(9, local_state=job_state("hr"), listed=OwnerSeenInHomeJobList.NO, **OF_BOB), True),
        (transfer(9, listed=OwnerSeenInHomeJobList.YES), True),
        (transfer(9, listed=OwnerSeenInHomeJobList.YES, remote="gamma", **OF_BOB), True),
    ],
    ids=["another's job there", "told, but not in home's list", "the same owner's", "elsewhere"],
)
def test_failures_of_one_owner_close_queues_only_if_no_other_owner_uses_the_cluster(
    other: Transfer, is_closed: bool
) -> None:
    known = fail(map(failure_of, (1, 2, 3)), NONE, NOW, other)

    assert (known.until is not None) is is_closed


def test_one_failed_probe_closes_queues_again_only_after_failures_of_two_owners() -> None:
    closed = fail([failure_of(1), failure_of(2, "bob"), failure_of(3)])
    other = transfer(8, listed=OwnerSeenInHomeJobList.YES, owner="carol")

    assert fail([failure_of(9)], closed, after(60), other).times == 2
    assert fail([failure_of(9)], failed(1, 2, 3), after(60), other) == replace(
        failed(1, 2, 3), failed=(PublishedFastJobFailure(job=9, owner="alice", was_accepted=False),)
    )


def test_failures_of_a_single_owner_never_lengthen_the_pause() -> None:
    known = failed(1, 2, 3)
    for number in range(2, 40):
        assert known.until
        now = known.until
        probed = failed(10 * number, 10 * number + 1, since=known, at=now)
        assert not circuit_breaker.does_breaker_close_queues(probed, {}, now, POLICY)
        known = failed(10 * number + 2, since=probed, at=now)
        assert (known.until, known.times) == (now + timedelta(seconds=60), 1)


def test_the_first_failure_of_a_second_owner_doubles_the_pause_once() -> None:
    known = failed(1, 2, 3)
    for number in (10, 20, 30):
        known = failed(number, number + 1, number + 2, since=known, at=after(number * 10))
    now = after(400)

    assert failed(9, since=known, at=now, owner="bob").until == now + timedelta(seconds=120)


def test_a_job_that_ran_opens_closed_queues_only_if_its_owner_is_proved() -> None:
    ran = circuit_breaker.breaker_evidence_of_transfer(transfer(), transfer(remote_state=job_state("r")), POLICY)
    assert ran

    assert circuit_breaker.update_breaker(failed(1, 2, 3), ran, (), NOW, POLICY) == NONE
    assert circuit_breaker.clear_owner_breaker_failures(failed(1, 2, 3), ran) == failed(1, 2, 3)


@pytest.mark.parametrize(
    ("change", "sign", "jobs"),
    [
        (ended(TransferOutcome.EXIT, exit_status="0"), BreakerEvidenceKind.RAN, [2]),
        ({"remote_state": job_state("r")}, BreakerEvidenceKind.RAN, [2]),
        ({"phase": StarterPhase.HELD, "remote_id": 4}, BreakerEvidenceKind.TAKEN, [2]),
        (TRIED, BreakerEvidenceKind.FAILED, [1, 2]),
    ],
)
def test_a_job_of_an_unproved_owner_clears_only_failures_of_that_owner(
    change: dict[str, object], sign: BreakerEvidenceKind, jobs: list[int]
) -> None:
    known = fail([failure_of(1), failure_of(2, "bob")])
    evidence = circuit_breaker.breaker_evidence_of_transfer(transfer(), transfer(**change), POLICY)

    assert evidence
    assert (evidence.sign, evidence.home_job_number, evidence.transfer.owner) == (sign, 7, "alice")
    assert [failure.job for failure in circuit_breaker.clear_owner_breaker_failures(known, evidence).failed] == jobs


def test_three_different_failed_jobs_in_a_row_close_the_queues() -> None:
    assert failed(1, 2).until is failed(*[1] * 9, 2).until is None
    assert not circuit_breaker.does_breaker_close_queues(failed(1, 2), {}, NOW, POLICY)
    assert failed(1, 2, 3) == PublishedClusterBreaker(
        cluster="beta", owners=("alice",), times=1, failures=3, until=after(60), cause=TransferFailureCause.UNREACHED
    )


@pytest.mark.parametrize(("was_accepted", "until"), [(False, None), (True, after(60))])
def test_an_accepted_job_clears_only_failed_submissions(was_accepted: bool, until: datetime | None) -> None:
    before = fail([failure_of(1, was_accepted=was_accepted)])

    assert failed(2, 3, since=circuit_breaker.forget_submission_failures(before)).until == until


def test_each_failed_probe_doubles_the_pause_up_to_the_longest_pause() -> None:
    """Failures during the pause do not count."""
    now, closed = NOW, fail([failure_of(1), failure_of(2, "bob"), failure_of(3)])
    assert failed(4, 5, since=closed, at=after(30)) == closed
    for number, pause_s in enumerate((60, 120, 150, 150), 3):
        assert (closed.until, closed.failures) == (now + timedelta(seconds=pause_s), number)
        now += timedelta(seconds=pause_s)
        closed = failed(9, since=closed, at=now)


@pytest.mark.parametrize(
    ("now_s", "probe_s", "is_closed"),
    [(59, None, True), (61, None, False), (65, 50, False), (130, 62, False)],
    ids=["not over", "over", "an older job", "the probe is no news any more"],
)
def test_closed_queues_accept_one_probe_job_after_the_pause(
    now_s: float, probe_s: float | None, is_closed: bool
) -> None:
    probes = [transfer(created_at=after(probe_s), listed=OwnerSeenInHomeJobList.YES)] if probe_s else []

    closed = failed(1, 2, 3)
    first = circuit_breaker.first_probe_time_of_each_owner(closed, probes)

    assert circuit_breaker.does_breaker_close_queues(closed, first, after(now_s), POLICY) is is_closed


def test_later_probe_jobs_of_one_owner_do_not_keep_the_queues_closed() -> None:
    """A job that the home job list lacks is no probe, because anybody could send such jobs."""
    closed = failed(1, 2, 3)
    probes = [transfer(job, created_at=after(61 + job), listed=OwnerSeenInHomeJobList.YES) for job in (50, 1, 20)]
    first = circuit_breaker.first_probe_time_of_each_owner(closed, probes)

    assert first == {"alice": after(62)}
    assert circuit_breaker.does_breaker_close_queues(closed, first, after(121), POLICY)
    assert not circuit_breaker.does_breaker_close_queues(closed, first, after(123), POLICY)
    assert circuit_breaker.first_probe_time_of_each_owner(closed, [transfer(created_at=after(62))]) == {}

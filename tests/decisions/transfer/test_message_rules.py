"""A starter's message changes only its sender's transfer, and never a recorded end."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.transfer.home_and_remote_mismatches import (
    may_home_have_missed_task_end,
    may_restored_guard_be_stale,
)
from gridbridge.decisions.transfer.starter_message_acceptance import (
    ReceivedStarterMessage,
    accept_or_reject_message,
    apply_starter_message,
    describe_job_end,
    transfer_for_restarted_task,
)
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import RejectedStarterMessage, Transfer
from gridbridge.model.transfer_messages_in_spool import (
    KEYS,
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from tests.states import job_state

NAME = "gb.alpha.7.0.1"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALICE = 1001
RECORD = TransferMessage(
    kind=TransferMessageKind.RECORD,
    transfer=NAME,
    remote="beta",
    queue="transfer-beta",
    phase=StarterPhase.RELEASED,
    remote_id="40",
    wake="f0",
)
ENDED = TransferMessage(
    kind=TransferMessageKind.ENDED, transfer=NAME, remote_id="40", outcome=TransferOutcome.EXIT, exit_status="3"
)
DEAD = TransferMessage(kind=TransferMessageKind.INTENT, transfer=NAME, desired=DesiredLocalJobState.DEAD)
CLOSED = TransferMessage(kind=TransferMessageKind.CLOSED, transfer=NAME, outcome=TransferOutcome.EXIT, exit_status="0")


def take(known: Transfer | None, *messages: TransferMessage, later_s: int = 0) -> Transfer:
    """Apply alice's messages, one second apart; every message must be accepted."""
    for number, message in enumerate(messages, later_s):
        known = accept(tell(known, message, NOON + timedelta(seconds=number)))
    assert known
    return known


def tell(known: Transfer | None, message: TransferMessage, now: datetime = NOON) -> Transfer | RejectedStarterMessage:
    return accept_or_reject_message(receive(known, message, now))


def receive(known: Transfer | None, message: TransferMessage, now: datetime) -> ReceivedStarterMessage:
    return ReceivedStarterMessage(
        message=message,
        known=known,
        home="alpha",
        routes=frozenset({("transfer-beta", "beta")}),
        uid=ALICE,
        owner="alice",
        record=f"/spool/m.{now:%H%M%S}",
        now=now,
    )


def accept(answer: Transfer | RejectedStarterMessage) -> Transfer:
    assert isinstance(answer, Transfer), answer
    return answer


@pytest.mark.parametrize("guard", ["", HomeStartGuard.NONE, HomeStartGuard.START])
def test_a_record_message_creates_a_transfer_of_the_uid_that_wrote_it(guard: str) -> None:
    begun = take(None, RECORD.with_changes(guard=guard))

    assert (begun.uid, begun.owner, begun.record) == (ALICE, "alice", "/spool/m.120000")
    assert (begun.remote, begun.remote_id, begun.phase) == ("beta", 40, StarterPhase.RELEASED)
    assert (begun.reason, begun.guard) == ("submitted to beta as 40, released", guard or HomeStartGuard.HOLD)


@pytest.mark.parametrize(
    ("known", "message", "reason"),
    [
        (None, DEAD, "intent message for a transfer without a record"),
        (None, ENDED, "ended message for a transfer without a record"),
        (None, CLOSED, "closed message for a transfer without a record"),
        (RECORD, RECORD.with_changes(phase=StarterPhase.HELD), "the message is older than the stored transfer"),
        (RECORD, RECORD.with_changes(phase=StarterPhase.SUBMITTING), "the message is older than the stored transfer"),
        (RECORD, RECORD.with_changes(phase="lost"), "unknown phase 'lost'"),
        (RECORD, RECORD.with_changes(phase=""), "unknown phase ''"),
        (RECORD, RECORD.with_changes(kind="rumour"), "unknown kind 'rumour'"),
        (RECORD, DEAD.with_changes(desired="happy"), "unknown intent 'happy'"),
        (RECORD, ENDED.with_changes(remote_id="41"), "remote job 41 is not the recorded job"),
        (RECORD, ENDED.with_changes(remote_id=""), "remote job  is not the recorded job"),
        (RECORD, ENDED.with_changes(outcome="done"), "invalid job end: 'done'"),
        (RECORD, ENDED.with_changes(exit_status=""), "invalid job end: 'exit'"),
        (RECORD, ENDED.with_changes(signal="9"), "invalid job end: 'exit'"),
        (RECORD, ENDED.with_changes(exit_status="0; id"), "the exit status is not a number"),
        (RECORD, ENDED.with_changes(signal="x"), "the signal is not a number"),
        (RECORD, CLOSED.with_changes(signal="9" * 26), "the signal is not a number"),
        (RECORD, ENDED.with_changes(outcome=TransferOutcome.SIGNAL, signal=""), "invalid job end: 'signal'"),
        (RECORD, ENDED.with_changes(outcome=TransferOutcome.SIGNAL, signal="0"), "invalid job end: 'signal'"),
        (None, RECORD.with_changes(remote_id="x"), "the remote id is not a number"),
        (None, RECORD.with_changes(remote_id="-1"), "the remote id is not a number"),
        (None, RECORD.with_changes(remote_id="\u00b2"), "the remote id is not a number"),
        (None, RECORD.with_changes(remote_id="9" * 30), "the remote id is not a number"),
        (None, RECORD.with_changes(wake="../1002/x"), "invalid FIFO name; expected letters and digits"),
        (None, RECORD.with_changes(wake="f" * 300), "invalid FIFO name; expected letters and digits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_messages_are_rejected_with_the_reason(
    known: TransferMessage | None, message: TransferMessage, reason: str
) -> None:
    before = take(None, known) if known else None

    assert tell(before, message, NOON + timedelta(seconds=1)) == RejectedStarterMessage(what=NAME, reason=reason)


def test_an_end_message_before_the_remote_id_is_recorded_is_rejected() -> None:
    begun = take(None, RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""))

    rejection = RejectedStarterMessage(what=NAME, reason="remote job 0 is not the recorded job")
    assert tell(begun, ENDED.with_changes(remote_id="0")) == rejection


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (RECORD, ""),
        (ENDED.with_changes(queue="?", remote="?"), ""),
        (RECORD.with_changes(transfer="gb.gamma.7.0.1"), "the transfer is not of cluster alpha"),
        (RECORD.with_changes(queue="all.q"), "no transfer queue 'all.q' leads to 'beta'"),
        (RECORD.with_changes(remote="alpha"), "no transfer queue 'transfer-beta' leads to 'alpha'"),
    ],
    ids=["ours", "known by its name", "another home", "another queue", "another cluster"],
)
def test_a_record_must_name_a_configured_queue_and_the_cluster_of_that_queue(
    message: TransferMessage, reason: str
) -> None:
    answer = tell(take(None, RECORD), message)

    assert (answer.reason if isinstance(answer, RejectedStarterMessage) else "") == reason


def test_a_spared_message_changes_only_the_reason_of_a_transfer() -> None:
    known = take(None, RECORD)

    told = take(known, RECORD.with_changes(kind=TransferMessageKind.SPARED))

    assert "failed 37" in told.reason
    assert told.with_changes(reason=known.reason) == known


@pytest.mark.parametrize(
    ("desired", "told"),
    [
        (DesiredLocalJobState.DEAD, "deleted here"),
        (DesiredLocalJobState.SUSPENDED, "suspended here"),
        (DesiredLocalJobState.RUNNING, "resumed here"),
    ],
)
def test_each_intent_replaces_a_suspension_and_has_a_reason(desired: str, told: str) -> None:
    suspended = take(None, RECORD, DEAD.with_changes(desired=DesiredLocalJobState.SUSPENDED))
    intended = take(suspended, DEAD.with_changes(desired=desired), later_s=5)

    assert (intended.desired, intended.reason) == (desired, told)


def test_a_repeated_record_updates_only_the_path_of_the_record_file() -> None:
    """Job lists that lacked the job since the first record still count."""
    missed = take(None, RECORD).with_changes(missed_polls=3, missing_since=NOON, reason="missing")
    known = take(None, RECORD, DEAD, ENDED)

    assert take(missed, RECORD, later_s=9) == missed.with_changes(record="/spool/m.120009")
    assert tell(known, RECORD) == known


@pytest.mark.parametrize(
    "late",
    [DEAD, TransferMessage(kind=TransferMessageKind.SPARED, transfer=NAME), CLOSED, ENDED],
    ids=lambda one: one.kind,
)
def test_messages_after_the_closed_message_change_nothing(late: TransferMessage) -> None:
    closed = take(None, RECORD, CLOSED)

    assert closed.closed_at == NOON + timedelta(seconds=1)
    assert take(closed, late, later_s=60) == closed
    assert isinstance(tell(closed, RECORD, NOON + timedelta(hours=1)), RejectedStarterMessage)


def test_only_the_current_starter_of_a_transfer_closes_the_transfer() -> None:
    """Messages of two starters of one task may be read together."""
    second = take(
        None, RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""), RECORD.with_changes(wake="f1")
    )

    assert take(second, CLOSED.with_changes(wake="f0"), later_s=9) == second
    assert take(second, CLOSED.with_changes(wake="f1"), later_s=9).is_over
    assert take(second, CLOSED, later_s=9).is_over


def test_a_later_record_keeps_the_remote_id_and_the_listed_states() -> None:
    held = take(None, RECORD.with_changes(phase=StarterPhase.HELD, rerun="no"), DEAD).with_changes(
        remote_state=job_state("hqw"), local_state=job_state("r"), remote_host="n1"
    )
    later = take(held, RECORD.with_changes(remote_id="", rerun=""), later_s=9)

    assert later == held.with_changes(
        phase=StarterPhase.RELEASED,
        record="/spool/m.120009",
        updated_at=NOON + timedelta(seconds=9),
        reason="submitted to beta as , released",
    )
    assert later.remote_id == 40


def test_an_end_message_sets_the_remote_host_if_it_names_a_host() -> None:
    assert take(None, RECORD, ENDED.with_changes(host="n2")).remote_host == "n2"
    assert take(take(None, RECORD).with_changes(remote_host="n1"), ENDED).remote_host == "n1"


ANY = st.builds(
    lambda values: TransferMessage(**values),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(
                [
                    TransferMessageKind.RECORD,
                    TransferMessageKind.INTENT,
                    TransferMessageKind.ENDED,
                    TransferMessageKind.CLOSED,
                    TransferMessageKind.ASK,
                    "",
                ]
            ),
            "transfer": st.just(NAME),
        },
        optional={
            "phase": st.sampled_from([StarterPhase.SUBMITTING, StarterPhase.HELD, StarterPhase.RELEASED, "x"]),
            "remote_id": st.sampled_from(["", "0", "40", "41", "x"]),
            "desired": st.sampled_from(
                [DesiredLocalJobState.RUNNING, DesiredLocalJobState.SUSPENDED, DesiredLocalJobState.DEAD, "x"]
            ),
            "outcome": st.sampled_from([TransferOutcome.EXIT, TransferOutcome.SIGNAL, TransferOutcome.ERROR, "x"]),
            "exit_status": st.sampled_from(["", "0", "255", "x"]),
            "signal": st.sampled_from(["", "9", "x"]),
            "wake": st.sampled_from(["", "f0", "../x"]),
        },
    ),
)


@given(st.lists(ANY, max_size=12))
def test_deletion_and_remote_id_and_end_and_phase_survive_messages_in_any_order(
    messages: list[TransferMessage],
) -> None:
    known = take(None, RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""))
    order = [StarterPhase.SUBMITTING, StarterPhase.HELD, StarterPhase.RELEASED]
    for number, message in enumerate(messages):
        before, after = known, tell(known, message, NOON + timedelta(seconds=number + 1))
        if isinstance(after, RejectedStarterMessage):
            continue
        known = after
        assert (after.name, after.uid, after.owner) == (NAME, ALICE, "alice")
        assert before.desired != DesiredLocalJobState.DEAD or after.desired == DesiredLocalJobState.DEAD
        assert before.remote_id in (0, after.remote_id)
        assert before.verdict in (None, after.verdict)
        assert before.closed_at in (None, after.closed_at)
        assert order.index(before.phase) <= order.index(after.phase)


@given(st.dictionaries(st.sampled_from(KEYS), st.text(st.characters(exclude_categories=()))))
def test_a_message_with_any_content_is_accepted_or_rejected(values: dict[str, str]) -> None:
    taken = apply_starter_message(receive(take(None, RECORD), TransferMessage(**values), NOON))

    assert isinstance(taken, Transfer | RejectedStarterMessage)


ASK = TransferMessage(kind=TransferMessageKind.ASK, transfer="gb.alpha.7.0.0")


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([], "gb.alpha.7.0.1"),
        ([(1, CLOSED)], "gb.alpha.7.0.2"),
        ([(1, CLOSED), (2, CLOSED)], "gb.alpha.7.0.3"),
        ([(1, CLOSED), (2, None)], "gb.alpha.7.0.2"),
        ([(10, CLOSED), (9, CLOSED)], "gb.alpha.7.0.11"),
        ([(1, DEAD)], None),
    ],
    ids=["the first", "the second", "the third", "adopt", "by number", "wait for a burial"],
)
def test_a_restarted_task_is_given_its_open_transfer_or_the_next_attempt(
    attempts: list[tuple[int, TransferMessage | None]], expected: str | None
) -> None:
    known = tuple(attempt(number, last) for number, last in attempts)
    reply = transfer_for_restarted_task(known, ASK)

    assert (reply.transfer if reply else None) == expected


def test_a_restarted_task_gets_no_transfer_while_the_earlier_starter_still_waits() -> None:
    """The starter on a silent host is killed when the host reports again."""
    known = (take(None, RECORD),)

    assert transfer_for_restarted_task(known, ASK.with_changes(wake="f1"), asleep=["f0"]) is None
    assert transfer_for_restarted_task(known, ASK.with_changes(wake="f0"), asleep=["f0"])
    assert transfer_for_restarted_task(known, ASK.with_changes(wake="f1"), asleep=["f2"])


def attempt(number: int, last: TransferMessage | None) -> Transfer:
    name = f"gb.alpha.7.0.{number}"
    messages = [RECORD, last] if last else [RECORD]
    return take(None, *[message.with_changes(transfer=name) for message in messages])


def test_the_reply_for_an_adopted_transfer_holds_its_phase_and_remote_id() -> None:
    reply = transfer_for_restarted_task((take(None, RECORD),), ASK)

    assert reply
    assert (reply.kind, reply.phase, reply.remote_id) == (TransferMessageKind.RECORD, StarterPhase.RELEASED, "40")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (ENDED, "exit status 3"),
        (ENDED.with_changes(outcome=TransferOutcome.SIGNAL, signal="9"), "killed by signal 9"),
        (ENDED.with_changes(outcome=TransferOutcome.REQUEUE), "comes home to run again"),
        (ENDED.with_changes(outcome=TransferOutcome.ERROR, reason="no shell"), "needs an administrator: no shell"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_job_end_has_a_one_sentence_description(message: TransferMessage, sentence: str) -> None:
    assert describe_job_end(message) == sentence


WHY = "ssh: far does not let the key of alice into the account al"


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id=""), "being submitted to beta"),
        (RECORD.with_changes(phase=StarterPhase.HELD), "submitted to beta as 40, held"),
    ],
    ids=["submitting", "held"],
)
def test_a_repeated_record_with_an_error_changes_only_reason_and_record_path(
    record: TransferMessage, told: str
) -> None:
    before = take(None, record)
    after = take(before, record.with_changes(reason=WHY), later_s=5)

    assert after == before.with_changes(record=after.record, reason=f"{told}; {WHY}")


def test_the_error_of_a_failed_submission_is_the_reason_until_the_next_phase() -> None:
    submitting = RECORD.with_changes(phase=StarterPhase.SUBMITTING, remote_id="")
    tried = submitting.with_changes(reason="tried in vain: ssh: no", cause=TransferFailureCause.UNREACHED)
    failed = take(take(None, submitting), tried, later_s=5)

    assert failed.reason == "tried in vain: ssh: no"
    assert take(failed, RECORD, later_s=9).reason == "submitted to beta as 40, released"


@pytest.mark.parametrize("guard", [HomeStartGuard.HOLD, HomeStartGuard.START, HomeStartGuard.NONE])
def test_the_end_of_a_remote_job_deleted_from_home_is_not_offered_to_a_restart(guard: str) -> None:
    """A job with -notify that is rescheduled dies of the warning signal, and runs again."""
    end = ENDED.with_changes(outcome=TransferOutcome.SIGNAL, exit_status="", signal="12")
    closed = CLOSED.with_changes(outcome=TransferOutcome.SIGNAL, signal="12", desired=DesiredLocalJobState.DEAD)
    begun = take(None, RECORD.with_changes(guard=guard), end)

    ended = take(begun, closed, later_s=1)

    assert may_home_have_missed_task_end(take(begun, closed.with_changes(desired=""), later_s=1))
    assert not may_home_have_missed_task_end(ended)
    assert may_restored_guard_be_stale(ended) == (guard != HomeStartGuard.NONE)

"""Apply messages from starters; a message changes only transfers of the owner of the message's file.

A transfer's key is (name, uid). Messages may arrive twice or late, so a recorded deletion, remote job id or
verdict is never changed.
"""

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from gridbridge.model import transfer_messages_in_spool
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard, is_valid_claim_name
from gridbridge.model.transfer.transfers_and_actions import RejectedStarterMessage, Transfer
from gridbridge.model.transfer_messages_in_spool import (
    DesiredLocalJobState,
    StarterPhase,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.model.transfer_name import parse_transfer_name

Destination: TypeAlias = tuple[str, str]  # a transfer queue and its remote cluster

MAX_JOB_DIGITS = 9  # largest number of digits of a job id; Grid Engine restarts the numbers after 9,999,999
MAX_WAKE_CHARACTERS = 64
INTENT_REASONS = {  # {desired state of the local job: text for people}
    DesiredLocalJobState.DEAD: "deleted here",
    DesiredLocalJobState.SUSPENDED: "suspended here",
    DesiredLocalJobState.RUNNING: "resumed here",
}
SPARED_REASON = (
    "the h_rt has passed at home, but only the remote limit ends the job; home accounting will say failed 37"
)
KNOWN_GUARDS = ("", HomeStartGuard.NONE, HomeStartGuard.START, HomeStartGuard.HOLD)
KEPT_KEYS = (  # fields of a transfer that a starter's later message leaves unchanged
    *("created_at", "desired", "pinned", "local_state", "remote_state", "remote_host", "since", "verdict", "listed"),
)
PHASE_ORDER = (StarterPhase.SUBMITTING, StarterPhase.HELD, StarterPhase.RELEASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStarterMessage:
    message: TransferMessage
    known: Transfer | None  # stored transfer with the message's name and uid, if any
    home: str
    routes: frozenset[Destination]
    uid: int
    owner: str
    record: str  # path of the message's file
    now: datetime


def accept_or_reject_message(received: ReceivedStarterMessage) -> Transfer | RejectedStarterMessage:
    refusal = reject_message_of_wrong_route(received.message, received.home, received.routes)
    return refusal or apply_starter_message(received)


def apply_starter_message(received: ReceivedStarterMessage) -> Transfer | RejectedStarterMessage:
    """Apply a starter's message whose home cluster and queue are already checked."""
    message, transfer, now = received.message, received.known, received.now
    if reason := describe_invalid_message_value(message):
        return _reject_wrong_route(message, reason)
    message = message.with_changes(reason=transfer_messages_in_spool.shorten_reason_for_storage(message.reason))
    if message.kind == TransferMessageKind.RECORD:
        if transfer and transfer.record == received.record:
            return transfer  # a restarted poller reads the message again
        return _apply_record_message(received, message)
    if transfer is None:
        return _reject_wrong_route(message, f"{message.kind} message for a transfer without a record")
    if message.kind in (TransferMessageKind.INTENT, TransferMessageKind.SPARED):
        return _apply_intent_message(transfer, message, now)
    if message.kind == TransferMessageKind.ENDED:
        return _apply_end_message(transfer, message, now)
    if message.kind == TransferMessageKind.CLOSED:
        return _apply_closing_message(transfer, message, now)
    return _reject_wrong_route(message, f"unknown kind {message.kind!r}")


def _reject_wrong_route(message: TransferMessage, reason: str) -> RejectedStarterMessage:
    return RejectedStarterMessage(what=message.transfer, reason=reason)


def reject_message_of_wrong_route(
    message: TransferMessage, home: str, routes: Container[Destination]
) -> RejectedStarterMessage | None:
    """Reject a message from another home cluster, or with a wrong pair of transfer queue and cluster."""
    if parse_transfer_name(message.transfer).cluster != home:
        return _reject_wrong_route(message, f"the transfer is not of cluster {home}")
    if message.kind == TransferMessageKind.RECORD and (message.queue, message.remote) not in routes:
        return _reject_wrong_route(message, f"no transfer queue {message.queue!r} leads to {message.remote!r}")
    return None


def transfer_for_restarted_task(
    transfers: tuple[Transfer, ...], message: TransferMessage, asleep: Container[str] = ()
) -> TransferMessage | None:
    """Answer a restarted task with its live transfer or with a new transfer's name; None: answer later.

    The answer waits while a transfer is being deleted, or a former starter sleeps on its FIFO (`asleep`).
    """
    live = [transfer for transfer in transfers if not transfer.is_over]
    if any(transfer.desired == DesiredLocalJobState.DEAD for transfer in live):
        return None
    if live:
        last = max(live, key=_attempt_number_of_transfer)
        if last.wake != message.wake and last.wake in asleep:
            return None
        return TransferMessage(
            kind=TransferMessageKind.RECORD,
            transfer=last.name,
            remote=last.remote,
            queue=last.queue,
            phase=last.phase,
            remote_id=str(last.remote_id or ""),
            desired=last.desired,
            rerun=last.rerun,
            claim=last.claim,
        )
    transfer_id = parse_transfer_name(message.transfer)
    transfer_id.attempt = max(map(_attempt_number_of_transfer, transfers), default=0) + 1
    return TransferMessage(kind=TransferMessageKind.RECORD, transfer=str(transfer_id))


def has_home_reused_job_number(message: TransferMessage, submitted: str) -> bool:
    """Say whether a home job has the number of an older job; the two submission times then differ."""
    return bool(message.submitted and submitted) and message.submitted != submitted and not message.restarted


def is_new_starter_of_dying_task(transfer: Transfer, message: TransferMessage) -> bool:
    """Say whether a new starter asks about a transfer being deleted; the task's former run is then over."""
    is_dying = not transfer.is_over and transfer.desired == DesiredLocalJobState.DEAD
    return is_dying and bool(message.wake) and message.wake != transfer.wake


def describe_invalid_message_value(message: TransferMessage) -> str:
    """Name the invalid value of a message that a user's process wrote; '' for a valid message."""
    numbers = (
        ("remote id", message.remote_id, MAX_JOB_DIGITS),
        ("exit status", message.exit_status, 3),
        ("signal", message.signal, 2),
    )
    for name, text, most in numbers:
        if text and not (text.isascii() and text.isdecimal() and len(text) <= most):
            return f"the {name} is not a number"
    if message.wake and not is_fifo_name(message.wake):
        return "invalid FIFO name; expected letters and digits"
    if message.guard not in KNOWN_GUARDS:
        return "the guard is unknown"
    if message.kind == TransferMessageKind.RECORD and message.claim and not is_valid_claim_name(message.claim):
        return "the claim is invalid; expected KIND.TOKEN"
    key = transfer_messages_in_spool.find_key_of_too_long_value(message)
    return f"the value of {key} is too long" if key else ""


def is_fifo_name(name: str) -> bool:
    """Say whether a text is a valid name of a starter's FIFO, and so is safe in a path."""
    return name.isascii() and name.isalnum() and len(name) <= MAX_WAKE_CHARACTERS


def _attempt_number_of_transfer(transfer: Transfer) -> int:
    return parse_transfer_name(transfer.name).attempt


def _apply_record_message(
    received: ReceivedStarterMessage, message: TransferMessage
) -> Transfer | RejectedStarterMessage:
    transfer, record, now = received.known, received.record, received.now
    if message.phase not in PHASE_ORDER:
        return _reject_wrong_route(message, f"unknown phase {message.phase!r}")
    fresh = Transfer(
        name=message.transfer,
        uid=received.uid,
        owner=received.owner,
        remote=message.remote,
        queue=message.queue,
        phase=message.phase,
        record=record,
        wake=message.wake,
        rerun=message.rerun,
        claim=message.claim,
        guard=message.guard or HomeStartGuard.HOLD,
        remote_id=int(message.remote_id or 0),
        created_at=now,
        updated_at=now,
        cause=message.cause,
        reason=_describe_submission_progress(message),
    )
    if transfer is None:
        return fresh
    if transfer.is_over or PHASE_ORDER.index(message.phase) < PHASE_ORDER.index(transfer.phase):
        return _reject_wrong_route(message, "the message is older than the stored transfer")
    if _is_record_message_without_news(transfer, fresh):
        latest = fresh if message.reason else transfer
        return transfer.with_changes(record=record, cause=latest.cause, reason=latest.reason)
    return fresh.with_changes(
        **{key: getattr(transfer, key) for key in KEPT_KEYS},
        remote_id=transfer.remote_id or fresh.remote_id,
        rerun=fresh.rerun or transfer.rerun,
        claimed=transfer.claimed if fresh.claim == transfer.claim else "",
        guard=transfer.guard if fresh.wake == transfer.wake else fresh.guard,
    )


def _is_record_message_without_news(transfer: Transfer, fresh: Transfer) -> bool:
    facts = (fresh.phase, fresh.wake, fresh.claim, fresh.remote_id or transfer.remote_id, fresh.rerun or transfer.rerun)
    return facts == (transfer.phase, transfer.wake, transfer.claim, transfer.remote_id, transfer.rerun)


def _describe_submission_progress(message: TransferMessage) -> str:
    if message.cause and message.reason:
        return message.reason
    added = f"; {message.reason}" if message.reason else ""
    if message.phase == StarterPhase.SUBMITTING:
        return f"being submitted to {message.remote}{added}"
    return f"submitted to {message.remote} as {message.remote_id}, {message.phase}{added}"


def _apply_intent_message(
    transfer: Transfer, message: TransferMessage, now: datetime
) -> Transfer | RejectedStarterMessage:
    if message.kind == TransferMessageKind.SPARED:
        return transfer if transfer.is_over else transfer.with_changes(reason=SPARED_REASON)
    if message.desired not in INTENT_REASONS:
        return _reject_wrong_route(message, f"unknown intent {message.desired!r}")
    if transfer.is_over or transfer.desired == DesiredLocalJobState.DEAD:
        return transfer
    return transfer.with_changes(desired=message.desired, updated_at=now, reason=INTENT_REASONS[message.desired])


def _apply_end_message(
    transfer: Transfer, message: TransferMessage, now: datetime
) -> Transfer | RejectedStarterMessage:
    if not transfer.remote_id or message.remote_id != str(transfer.remote_id):
        return _reject_wrong_route(message, f"remote job {message.remote_id} is not the recorded job")
    if not _has_message_valid_job_end(message):
        return _reject_wrong_route(message, f"invalid job end: {message.outcome!r}")
    if transfer.verdict or transfer.is_over:
        return transfer
    return transfer.with_changes(
        verdict=message,
        updated_at=now,
        remote_host=message.host or transfer.remote_host,
        cause=message.cause,
        reason=f"ended at {transfer.remote}: {describe_job_end(message)}",
    )


def _has_message_valid_job_end(message: TransferMessage) -> bool:
    if message.outcome == TransferOutcome.EXIT:
        return bool(message.exit_status) and not message.signal
    if message.outcome == TransferOutcome.SIGNAL:
        return int(message.signal or 0) > 0
    return message.outcome in (TransferOutcome.REQUEUE, TransferOutcome.ERROR)


def _apply_closing_message(transfer: Transfer, message: TransferMessage, now: datetime) -> Transfer:
    """Close a transfer by a message of its starter, unless a new starter continues the transfer.

    After a cleared error (qmod -cj) a task may use its transfer name again. A task that home ended after -notify
    may run again (qmod -rj), and may still have a hold or start time.
    """
    if transfer.is_over or (message.wake and transfer.wake and message.wake != transfer.wake):
        return transfer
    cause = message.cause or (transfer.verdict.cause if transfer.verdict else "")
    reason = f"ended here: {describe_job_end(message)}"
    closed = transfer.with_changes(closed_at=now, updated_at=now, cause=cause, reason=reason)
    if message.desired != DesiredLocalJobState.DEAD:
        return closed
    return closed.with_changes(desired=DesiredLocalJobState.DEAD, reguarded=closed.guard != HomeStartGuard.NONE)


def describe_job_end(message: TransferMessage) -> str:
    words = {
        TransferOutcome.SIGNAL: f"killed by signal {message.signal}",
        TransferOutcome.REQUEUE: "comes home to run again",
        TransferOutcome.ERROR: "needs an administrator",
    }.get(message.outcome, f"exit status {message.exit_status}")
    return f"{words}: {message.reason}" if message.reason else words

"""Journal refused messages with all inputs, and judge journalled messages again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridbridge.decisions.transfer.starter_message_rules import (
    ReceivedMessage,
    accept_or_reject_message,
)
from gridbridge.model.message import shorten_reason
from gridbridge.model.transfer.transfer_plan import RejectedAction
from gridbridge.program.encoding import decode_model_value, encode_model_value
from gridbridge.program.journal import DecisionJournal, make_journal_entry
from gridbridge.shell.clock import Clock
from gridbridge.shell.quota import LogQuota

PROGRAM = "poller refusal"
AN_HOUR = 20  # entries per person: anybody may write messages that are refused


class RefusedMessageJournal:
    """Journals a limited number of refused messages per person and hour."""

    def __init__(self, journal: DecisionJournal, clock: Clock) -> None:
        self._journal = journal
        self._quota = LogQuota(clock.steady_s, AN_HOUR, 3600.0)

    def keep(self, received: ReceivedMessage, refusal: RejectedAction) -> None:
        """Journal a refused message with all inputs of the refusal."""
        self._quota.left_out()  # restarts the count after an hour
        if not self._quota.allows(received.uid):
            return
        way = received.message.queue, received.message.remote
        inputs = {"received": encode_model_value(replace(received, routes=received.routes & {way}))}
        self._journal.keep(make_journal_entry(PROGRAM, received.now, inputs, [_sentence(refusal)]))


def again(row: Mapping[str, Any]) -> list[str]:
    """Judge a journalled message again; return the result as one sentence."""
    verdict = accept_or_reject_message(decode_model_value(row["received"], ReceivedMessage))
    return [_sentence(verdict) if isinstance(verdict, RejectedAction) else f"take {verdict.name}"]


def said(actions: Sequence[str]) -> list[str]:
    """Return journalled refusals unchanged."""
    return list(actions)


def _sentence(refusal: RejectedAction) -> str:
    return f"refuse {refusal.what}: {shorten_reason(refusal.reason)}"

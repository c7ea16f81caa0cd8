"""The messages that were refused, kept in the journal with their rows, and judged again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gridbridge.decisions.transfer.message_rules import ReceivedMessage, judge
from gridbridge.model.message import short
from gridbridge.model.transfer.transfer_plan import RejectedAction
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import DecisionJournal, telling
from gridbridge.shell.clock import Clock
from gridbridge.shell.quota import LogQuota

PROGRAM = "poller refusal"
AN_HOUR = 20  # of each person: anybody may write messages that are refused


class Refusals:
    """Keeps a few refusals of each person."""

    def __init__(self, journal: DecisionJournal, clock: Clock) -> None:
        self._journal = journal
        self._quota = LogQuota(clock.steady_s, AN_HOUR, 3600.0)

    def keep(self, received: ReceivedMessage, refusal: RejectedAction) -> None:
        """Keep a message that was refused, with what else decided that."""
        self._quota.left_out()  # begins to count anew after an hour
        if not self._quota.allows(received.uid):
            return
        way = received.message.queue, received.message.remote
        inputs = {"received": encode(replace(received, routes=received.routes & {way}))}
        self._journal.keep(telling(PROGRAM, received.now, inputs, [_sentence(refusal)]))


def again(row: Mapping[str, Any]) -> list[str]:
    """Judge a message again."""
    verdict = judge(decode(row["received"], ReceivedMessage))
    return [_sentence(verdict) if isinstance(verdict, RejectedAction) else f"take {verdict.name}"]


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)


def _sentence(refusal: RejectedAction) -> str:
    return f"refuse {refusal.what}: {short(refusal.reason)}"

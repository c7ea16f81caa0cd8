"""Limits each person's transfers that home's list has not proved: anybody may invent some.

If a person has too many, a new record stays in the spool until home has been asked. No real job is
lost by that: home lists a job that is away, and a job that home no longer lists is still accepted
while its cluster lists it as that person's.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from gridbridge.decisions.transfer.ownership_proof import MOST_UNPROVED, is_listed
from gridbridge.model.ids import parse_transfer
from gridbridge.model.message import MessageKind
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_plan import RejectedAction
from gridbridge.model.transfer.transfer_row import Key, OwnershipProof, Transfer
from gridbridge.shell.clock import Clock
from gridbridge.state.inbox import Inbox
from gridbridge.state.spool_reader import SpooledMessage
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

KEPT = timedelta(hours=1)  # transfers that closed and were never proved
SWEEP_S = 600.0

_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A transfer that waits for home's answer: what its record says, and its messages."""

    transfer: Transfer
    since: datetime
    others: tuple[str, ...] = ()  # who are not the record's owner

    def moved(self, step: timedelta) -> "_Waiting":
        """Return it after the clock was set by so much."""
        return self._replace(since=self.since + step)


class UnverifiedQuota:
    """Counts unproved transfers, and lets records wait that are too many."""

    def __init__(self, ledger: TransferLedger, inbox: Inbox, clock: Clock) -> None:
        self.most = MOST_UNPROVED
        self._ledger = ledger
        self._inbox = inbox
        self._clock = clock
        self._waiting: dict[Key, _Waiting] = clock.dated(_Waiting.moved)
        self._admitted: dict[Key, str] = {}  # Listed
        self._count: Counter[int] | None = None
        self._swept_s = 0.0

    def begin(self) -> None:
        """Count anew at the begin of a round."""
        self._count = None

    def keeps(self, spooled: SpooledMessage, verdict: Transfer | RejectedAction) -> bool:
        """Say whether a message of an unknown transfer has to wait for home's answer."""
        name = spooled.message.transfer, spooled.uid
        if spooled.message.kind != MessageKind.RECORD:
            return name in self._waiting
        if isinstance(verdict, RejectedAction) or name in self._admitted:
            return False
        return name in self._waiting or self._counted()[spooled.uid] >= self.most

    def park(self, spooled: SpooledMessage, verdict: Transfer | RejectedAction) -> list[str]:
        """Let a message wait in the spool; return the older record that it replaces."""
        name = spooled.message.transfer, spooled.uid
        entry = self._waiting.get(name)
        if isinstance(verdict, RejectedAction):
            assert entry
            self._waiting[name] = entry._replace(others=(*entry.others, spooled.path))
            return []
        if entry is None:
            self._waiting[name] = _Waiting(verdict, self._clock.now())
            return []
        self._waiting[name] = entry._replace(transfer=verdict)
        return [entry.transfer.record] if entry.transfer.record != verdict.record else []

    def admit(self, transfer: Transfer) -> Transfer:
        """Count a new transfer that is accepted, as proved if home's list has just shown it."""
        self._counted()[transfer.uid] += 1
        return transfer.but(listed=self._admitted.pop(transfer.key, ""))

    def take_answer(
        self, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]
    ) -> list[str]:
        """Take home's answer; return the messages that it refuses."""
        refused: list[str] = []
        uids: Counter[int] = Counter()
        for name, entry in tuple(self._waiting.items()):
            verdict = _judge(entry, home, snapshots)
            if verdict is not None:
                del self._waiting[name]
            if verdict:
                self._admitted[name] = OwnershipProof.YES if verdict == OwnershipProof.YES else ""
                self._inbox.again((entry.transfer.record, *entry.others))
            elif verdict == "":
                refused += (entry.transfer.record, *entry.others)
                uids[entry.transfer.uid] += 1
        for uid, count in uids.items():
            why = f"{home.cluster} lists no such jobs of theirs, and {self.most} are known"
            _log.warning("event=unproved uid=%d refused=%d why=%r", uid, count, why)
        self._forget(home.taken_at)
        return refused

    def jobs(self) -> set[int]:
        """Return the job ids, at home and there, that answers have to show."""
        waiting = [entry.transfer for entry in self._waiting.values()]
        return {parse_transfer(transfer.name).job for transfer in waiting} | {
            transfer.remote_id for transfer in waiting if transfer.remote_id
        }

    def names(self) -> frozenset[tuple[str, str]]:
        """Return the transfers that wait, each with its owner."""
        return frozenset(
            (entry.transfer.name, entry.transfer.owner) for entry in self._waiting.values()
        )

    def _counted(self) -> "Counter[int]":
        """Count each person's unproved transfers, with those home was not asked about."""
        if self._count is None:
            transfers = chain(self._ledger.open.values(), self._ledger.ended.values())
            self._count = Counter(
                transfer.uid for transfer in transfers if transfer.listed != OwnershipProof.YES
            )
            for uid, rested in self._ledger.rested.items():
                self._count[uid] += max(0, len(rested) - self.most)
        return self._count

    def _forget(self, asked_at: datetime) -> None:
        """Forget unproved closed transfers: the oldest of too many, and all after an hour."""
        for uid, rested in self._ledger.rested.items():
            while len(rested) > self.most and rested[0][1] < asked_at:
                self._ledger.forget_unproved(rested.popleft()[0], uid)
        if self._clock.steady_s() - self._swept_s > SWEEP_S:
            self._swept_s = self._clock.steady_s()
            self._ledger.sweep_unproved(asked_at - KEPT)


def _judge(
    entry: _Waiting, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]
) -> str | None:
    """Return YES if home lists it, NO if only its own cluster lists it, else empty.

    None while one of them has not answered since.
    """
    transfer = entry.transfer
    if home.taken_at <= entry.since:
        return None
    if is_listed(transfer.name, transfer.owner, home):
        return OwnershipProof.YES
    if not transfer.remote_id:
        return ""
    remote = snapshots.get(transfer.remote)
    if remote is None or remote.taken_at <= entry.since:
        return None
    row = remote.find(transfer.remote_id)
    return OwnershipProof.NO if row and row.owner == transfer.owner else ""

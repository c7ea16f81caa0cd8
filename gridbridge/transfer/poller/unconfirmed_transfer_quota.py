"""Limit each person's transfers that the home job list has not confirmed.

Anybody may write invented records. Above the limit, a new record stays in the spool until the home
cluster has been queried. No real job is lost: home lists each job that is away. A job that home no
longer lists is still accepted while the remote cluster lists the job with the same owner.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from gridbridge.decisions.transfer.local_task_ownership import MOST_UNPROVED, is_task_listed_as_owners
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_round_plan import RejectedStarterMessage
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer, TransferKey
from gridbridge.model.transfer_message import TransferMessageKind
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell.clock import Clock
from gridbridge.state.spool_inbox import SpoolInbox
from gridbridge.state.spool_reader import MessageWithAuthorUid
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

KEPT = timedelta(hours=1)  # storage time of closed transfers that home never confirmed
SWEEP_S = 600.0

_quota_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """A transfer whose record and messages wait for the home cluster's job list."""

    transfer: Transfer
    since: datetime
    others: tuple[str, ...] = ()  # spool paths of the transfer's messages besides the record

    def moved(self, step: timedelta) -> "_Waiting":
        """Return the waiting transfer with its time moved by a clock change."""
        return self._replace(since=self.since + step)


class UnconfirmedTransferQuota:
    """Counts unconfirmed transfers per uid, and lets records above the limit wait."""

    def __init__(self, ledger: TransferLedger, inbox: SpoolInbox, clock: Clock) -> None:
        self.most = MOST_UNPROVED
        self._ledger = ledger
        self._inbox = inbox
        self._clock = clock
        self._waiting: dict[TransferKey, _Waiting] = clock.dated(_Waiting.moved)
        self._admitted: dict[TransferKey, str] = {}  # OwnershipProof of each admitted transfer
        self._count: Counter[int] | None = None
        self._swept_s = 0.0

    def begin(self) -> None:
        """Reset the count of unconfirmed transfers at the start of a round."""
        self._count = None

    def keeps(self, spooled: MessageWithAuthorUid, verdict: Transfer | RejectedStarterMessage) -> bool:
        """Return whether a new transfer's message must wait for the home job list."""
        name = spooled.message.transfer, spooled.uid
        if spooled.message.kind != TransferMessageKind.RECORD:
            return name in self._waiting
        if isinstance(verdict, RejectedStarterMessage) or name in self._admitted:
            return False
        return name in self._waiting or self._counted()[spooled.uid] >= self.most

    def park(self, spooled: MessageWithAuthorUid, verdict: Transfer | RejectedStarterMessage) -> list[str]:
        """Let a message wait in the spool; return the older record that is replaced."""
        name = spooled.message.transfer, spooled.uid
        entry = self._waiting.get(name)
        if isinstance(verdict, RejectedStarterMessage):
            assert entry
            self._waiting[name] = entry._replace(others=(*entry.others, spooled.path))
            return []
        if entry is None:
            self._waiting[name] = _Waiting(verdict, self._clock.now())
            return []
        self._waiting[name] = entry._replace(transfer=verdict)
        return [entry.transfer.record] if entry.transfer.record != verdict.record else []

    def admit(self, transfer: Transfer) -> Transfer:
        """Count an accepted transfer; mark its owner confirmed if home listed the task."""
        self._counted()[transfer.uid] += 1
        return transfer.but(listed=self._admitted.pop(transfer.key, ""))

    def take_answer(self, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]) -> list[str]:
        """Judge waiting records by new snapshots; return the paths of refused messages."""
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
            why = f"{home.cluster} lists no such jobs of the uid; {self.most} are unproved"
            _quota_log.warning("event=unproved uid=%d refused=%d why=%r", uid, count, why)
        self._forget(home.taken_at)
        return refused

    def jobs(self) -> set[int]:
        """Return the waiting transfers' local and remote job ids for the next snapshots."""
        waiting = [entry.transfer for entry in self._waiting.values()]
        return {parse_transfer_name(transfer.name).job for transfer in waiting} | {
            transfer.remote_id for transfer in waiting if transfer.remote_id
        }

    def names(self) -> frozenset[tuple[str, str]]:
        """Return name and owner of each waiting transfer."""
        return frozenset((entry.transfer.name, entry.transfer.owner) for entry in self._waiting.values())

    def _counted(self) -> "Counter[int]":
        """Return each uid's number of unconfirmed transfers, open and closed."""
        if self._count is None:
            transfers = chain(self._ledger.open.values(), self._ledger.ended.values())
            self._count = Counter(transfer.uid for transfer in transfers if transfer.listed != OwnershipProof.YES)
            for uid, rested in self._ledger.rested.items():
                self._count[uid] += max(0, len(rested) - self.most)
        return self._count

    def _forget(self, asked_at: datetime) -> None:
        """Delete unconfirmed closed transfers above a person's limit or older than an hour."""
        for uid, rested in self._ledger.rested.items():
            while len(rested) > self.most and rested[0][1] < asked_at:
                self._ledger.forget_unproved(rested.popleft()[0], uid)
        if self._clock.steady_s() - self._swept_s > SWEEP_S:
            self._swept_s = self._clock.steady_s()
            self._ledger.sweep_unproved(asked_at - KEPT)


def _judge(entry: _Waiting, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]) -> str | None:
    """Return YES for a task listed at home, NO for a job listed only remotely, or ''.

    Return None while a snapshot newer than the record is missing.
    """
    transfer = entry.transfer
    if home.taken_at <= entry.since:
        return None
    if is_task_listed_as_owners(transfer.name, transfer.owner, home):
        return OwnershipProof.YES
    if not transfer.remote_id:
        return ""
    remote = snapshots.get(transfer.remote)
    if remote is None or remote.taken_at <= entry.since:
        return None
    row = remote.find(transfer.remote_id)
    return OwnershipProof.NO if row and row.owner == transfer.owner else ""

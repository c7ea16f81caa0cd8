"""Read starters' messages, and limit each person's transfers whose owner is not proved.

Anybody may write messages about invented jobs. Above the limit a new transfer's first message waits in the
spool until home is queried. No real job is lost, because home's job list shows each job that is away.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from gridbridge.decisions.transfer.starter_message_acceptance import (
    Destination,
    ReceivedStarterMessage,
    accept_or_reject_message,
)
from gridbridge.decisions.transfer.transfers_in_job_lists import MOST_UNPROVED, is_task_listed_as_owners
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import (
    OwnerSeenInHomeJobList,
    RejectedStarterMessage,
    Transfer,
    TransferKey,
)
from gridbridge.model.transfer_messages_in_spool import TransferMessageKind, shorten_reason_for_storage
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LogLineQuotaByPerson
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.spool_reader import MessageWithAuthorUid
from gridbridge.transfer.poller.answers_to_starters import (
    RestartedTaskQuestionResponder,
    UndeliveredTaskEndTracker,
    VerdictFilesAndStarterFifos,
)
from gridbridge.transfer.poller.poller_decision_journal import RefusedStarterMessageJournal
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

_log = logging.getLogger(__name__)

UNPROVED_TRANSFER_AGE = timedelta(hours=1)  # storage time of closed transfers whose owner is not proved
SWEEP_S = 600.0


class _TransferWaitingForHomeList(NamedTuple):
    transfer: Transfer
    since: datetime
    others: tuple[str, ...] = ()  # paths of the transfer's further messages

    def shift_time(self, step: timedelta) -> "_TransferWaitingForHomeList":
        return self._replace(since=self.since + step)


class UnconfirmedTransferQuota:
    """Counts each uid's transfers without a proved owner; new transfers above the limit must wait."""

    def __init__(self, ledger: TransferLedger, inbox: StarterMessageInbox, clock: Clock) -> None:
        self.most = MOST_UNPROVED
        self._ledger, self._inbox, self._clock = ledger, inbox, clock
        self._waiting: dict[TransferKey, _TransferWaitingForHomeList] = clock.make_clock_shifted_dictionary(
            _TransferWaitingForHomeList.shift_time
        )
        self._admitted: dict[TransferKey, str] = {}  # whether an accepted transfer's owner is proved
        self._count: Counter[int] | None = None
        self._swept_s = 0.0

    def discard_transfer_count(self) -> None:
        self._count = None

    def must_message_wait(self, spooled: MessageWithAuthorUid, verdict: Transfer | RejectedStarterMessage) -> bool:
        name = spooled.message.transfer, spooled.uid
        if spooled.message.kind != TransferMessageKind.RECORD:
            return name in self._waiting
        if isinstance(verdict, RejectedStarterMessage) or name in self._admitted:
            return False
        return name in self._waiting or self._count_transfers_without_proved_owner_by_uid()[spooled.uid] >= self.most

    def hold_message_in_spool(
        self, spooled: MessageWithAuthorUid, verdict: Transfer | RejectedStarterMessage
    ) -> list[str]:
        """Let a message wait in the spool; return the path of the older message that it replaces, if any."""
        name = spooled.message.transfer, spooled.uid
        entry = self._waiting.get(name)
        if isinstance(verdict, RejectedStarterMessage):
            assert entry
            self._waiting[name] = entry._replace(others=(*entry.others, spooled.path))
            return []
        if entry is None:
            self._waiting[name] = _TransferWaitingForHomeList(verdict, self._clock.now())
            return []
        self._waiting[name] = entry._replace(transfer=verdict)
        return [entry.transfer.record] if entry.transfer.record != verdict.record else []

    def admit_transfer(self, transfer: Transfer) -> Transfer:
        """Count an accepted transfer; mark its owner as proved if the home job list showed the task."""
        self._count_transfers_without_proved_owner_by_uid()[transfer.uid] += 1
        return transfer.with_changes(listed=self._admitted.pop(transfer.transfer_key, ""))

    def judge_waiting_transfers(self, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]) -> list[str]:
        """Accept or reject each waiting transfer that new job lists decide; return the paths of rejected messages."""
        refused: list[str] = []
        uids: Counter[int] = Counter()
        for name, entry in tuple(self._waiting.items()):
            verdict = _where_job_lists_show_waiting_transfer(entry, home, snapshots)
            if verdict is not None:
                del self._waiting[name]
            if verdict:
                self._admitted[name] = OwnerSeenInHomeJobList.YES if verdict == OwnerSeenInHomeJobList.YES else ""
                self._inbox.return_messages_again((entry.transfer.record, *entry.others))
            elif verdict == "":
                refused += (entry.transfer.record, *entry.others)
                uids[entry.transfer.uid] += 1
        for uid, count in uids.items():
            why = f"{home.cluster} does not list these jobs of the uid; expected at most {self.most} unlisted jobs"
            _log.warning("event=unproved uid=%d refused=%d why=%r", uid, count, why)
        self._delete_transfers_without_proved_owner(home.taken_at)
        return refused

    def job_ids_of_waiting_transfers(self) -> set[int]:
        """Return the local and remote job ids of waiting transfers; the next job lists must have them."""
        waiting = [entry.transfer for entry in self._waiting.values()]
        local = {parse_transfer_name(transfer.name).job for transfer in waiting}
        return local | {transfer.remote_id for transfer in waiting if transfer.remote_id}

    def names_and_owners_of_waiting_transfers(self) -> frozenset[tuple[str, str]]:
        return frozenset((entry.transfer.name, entry.transfer.owner) for entry in self._waiting.values())

    def _count_transfers_without_proved_owner_by_uid(self) -> "Counter[int]":
        if self._count is None:
            transfers = chain(self._ledger.open.values(), self._ledger.ended.values())
            proved = OwnerSeenInHomeJobList.YES
            self._count = Counter(transfer.uid for transfer in transfers if transfer.listed != proved)
            for uid, rested in self._ledger.rested.items():
                self._count[uid] += max(0, len(rested) - self.most)
        return self._count

    def _delete_transfers_without_proved_owner(self, asked_at: datetime) -> None:
        """Delete closed transfers without a proved owner after an hour, or earlier if a person has too many."""
        for uid, rested in self._ledger.rested.items():
            while len(rested) > self.most and rested[0][1] < asked_at:
                self._ledger.delete_unproved_transfer(rested.popleft()[0], uid)
        if self._clock.steady_s() - self._swept_s > SWEEP_S:
            self._swept_s = self._clock.steady_s()
            self._ledger.sweep_unproved_transfers(asked_at - UNPROVED_TRANSFER_AGE)


def _where_job_lists_show_waiting_transfer(
    entry: _TransferWaitingForHomeList, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]
) -> str | None:
    """Say where job lists show a transfer: YES (at home), NO (only remotely), '' (nowhere); None without a new list."""
    transfer = entry.transfer
    if home.taken_at <= entry.since:
        return None
    if is_task_listed_as_owners(transfer.name, transfer.owner, home):
        return OwnerSeenInHomeJobList.YES
    if not transfer.remote_id:
        return ""
    remote = snapshots.get(transfer.remote)
    if remote is None or remote.taken_at <= entry.since:
        return None
    row = remote.find_job_list_row(transfer.remote_id)
    return OwnerSeenInHomeJobList.NO if row and row.owner == transfer.owner else ""


PREMATURE_S = 60.0  # a message waits at most this time for the first message of its transfer
PREMATURE_OF_UID = 100  # largest number of waiting messages of one uid
LINGER_S = 1.5  # longest time for which `closed` messages wait for further messages
LINGERING = 20  # largest number of waiting `closed` messages
KIND_ORDER = (
    *(TransferMessageKind.RECORD, TransferMessageKind.INTENT, TransferMessageKind.SPARED),
    *(TransferMessageKind.ENDED, TransferMessageKind.CLOSED, TransferMessageKind.ASK),
)


class StarterMessageReader:
    """Reads starters' messages each round; a message that precedes its transfer's first message waits."""

    def __init__(
        self,
        policy: Policy,
        inbox: StarterMessageInbox,
        ledger: TransferLedger,
        verdicts: VerdictFilesAndStarterFifos,
        unheard_ends: UndeliveredTaskEndTracker,
        clock: Clock,
        journal: DecisionJournal,
    ) -> None:
        self.premature: dict[str, tuple[float, MessageWithAuthorUid]] = {}
        self.unproved = UnconfirmedTransferQuota(ledger, inbox, clock)
        self.questions = RestartedTaskQuestionResponder(ledger, inbox, verdicts, unheard_ends, clock)
        self._done: list[str] = []
        self._lingering: tuple[MessageWithAuthorUid, ...] = ()
        self._lingering_since = 0.0
        self._ledger, self._inbox, self._clock = ledger, inbox, clock
        self._refusals = RefusedStarterMessageJournal(journal, clock)
        self._routes: set[Destination] = set()
        self._quota = LogLineQuotaByPerson(clock.steady_s)
        self.use_changed_configuration(policy)

    def use_changed_configuration(self, policy: Policy) -> None:
        """Use a changed configuration; queues of older configurations stay valid for running starters."""
        self.linger_s = LINGER_S - policy.poller.spool_interval_s
        self._home = policy.site.cluster
        self.accept_messages_of_routes((name, queue.cluster) for name, queue in policy.queues.items())
        self._limit = policy.poller.spool_files_per_uid

    def accept_messages_of_routes(self, routes: Iterable[Destination]) -> None:
        self._routes.update(routes)

    def apply_new_messages(self, at_once: bool) -> tuple[Transfer, ...]:
        """Apply new messages to the transfers; return the transfers that changed.

        Without `at_once`, closing messages may wait. A kill loses no message, because all messages stay in the spool
        until `remove_processed_messages`.
        """
        new = (*self._lingering, *self._inbox.read_new_messages())
        if not at_once and self._may_closing_messages_wait(new):
            return ()
        self._lingering = ()
        self.unproved.discard_transfer_count()
        messages = [*(spooled for _, spooled in self.premature.values()), *new]
        # sorted by kind, not by time, because the hosts' clocks differ; unknown kinds come last
        messages.sort(key=lambda spooled: (*KIND_ORDER, spooled.message.kind).index(spooled.message.kind))
        changed: set[TransferKey] = set()
        newest = {_key_shared_by_starter_progress_messages(spooled): spooled.path for spooled in messages}
        for spooled in messages:
            if newest[_key_shared_by_starter_progress_messages(spooled)] == spooled.path:
                self._done += self._process_starter_message(spooled, changed)
            else:
                self.premature.pop(spooled.path, None)
                self._done.append(spooled.path)
        return tuple(self._ledger.open[key] for key in changed)

    def judge_waiting_transfers(self, home: ClusterSnapshot, snapshots: Mapping[str, ClusterSnapshot]) -> None:
        self._done += self.unproved.judge_waiting_transfers(home, snapshots)

    def remove_processed_messages(self) -> None:
        """Remove processed messages from the spool, after the state file has all changes."""
        for path in self._done:
            self._inbox.remove_stored_message(path)
        self._done.clear()
        self._inbox.restore_spool_loss_mark()
        self._quota.log_omitted_line_counts(_log)

    def _may_closing_messages_wait(self, new: tuple[MessageWithAuthorUid, ...]) -> bool:
        if self.premature or not 0 < len(new) <= LINGERING:
            return False
        if any(spooled.message.kind != TransferMessageKind.CLOSED for spooled in new):
            return False
        if not self._lingering:
            self._lingering_since = self._clock.steady_s()
        self._lingering = new
        return self._clock.steady_s() - self._lingering_since < self.linger_s

    def _process_starter_message(self, spooled: MessageWithAuthorUid, changed: set[TransferKey]) -> list[str]:
        message = spooled.message
        if message.kind == TransferMessageKind.ASK:
            wrong = self.questions.answer_starter_of_restarted_task(spooled)
            return self._reject_or_postpone_message(spooled, wrong, False) if wrong else [spooled.path]
        previous = self._ledger.find_transfer((message.transfer, spooled.uid))
        is_new = previous is None and message.kind == TransferMessageKind.RECORD
        if is_new and self._has_uid_too_many_transfers(spooled.uid):
            if self._may_premature_message_wait(spooled):
                self.premature[spooled.path] = self._clock.steady_s(), spooled
                return []
            full = RejectedStarterMessage(what=message.transfer, reason=f"{self._limit // 2} transfers are open")
            return self._reject_or_postpone_message(spooled, full, False)
        received = self._message_with_decision_facts(spooled, previous)
        verdict = accept_or_reject_message(received)
        if previous is None and self.unproved.must_message_wait(spooled, verdict):
            self.premature.pop(spooled.path, None)
            return self.unproved.hold_message_in_spool(spooled, verdict)
        if isinstance(verdict, RejectedStarterMessage):
            if refused := self._reject_or_postpone_message(spooled, verdict, previous is None):
                self._refusals.store_refusal(received, verdict)
            return refused
        self.premature.pop(spooled.path, None)
        transfer = verdict if previous else self.unproved.admit_transfer(verdict)
        return self._store_changed_transfer(spooled, previous, transfer, changed)

    def _store_changed_transfer(
        self, spooled: MessageWithAuthorUid, previous: Transfer | None, transfer: Transfer, changed: set[TransferKey]
    ) -> list[str]:
        if transfer == previous:
            return [spooled.path] if spooled.path != transfer.record else []
        changed.add(transfer.transfer_key)
        self._ledger.store_transfer(transfer)
        if previous is None or previous.with_changes(record=transfer.record) != transfer:
            self._ledger.add_history_line(transfer, transfer.reason)
        if spooled.message.kind != TransferMessageKind.RECORD:
            return [spooled.path]
        return [previous.record] if previous and previous.record != spooled.path else []

    def _message_with_decision_facts(
        self, spooled: MessageWithAuthorUid, previous: Transfer | None
    ) -> ReceivedStarterMessage:
        """Return a message with the facts that decide about it; a stored transfer may still use a removed queue."""
        return ReceivedStarterMessage(
            message=spooled.message,
            known=previous,
            home=self._home,
            routes=frozenset(self._routes | ({(previous.queue, previous.remote)} if previous else set())),
            uid=spooled.uid,
            owner=safe_files.account_name_or_uid(spooled.uid),
            record=spooled.path,
            now=self._clock.now(),
        )

    def _has_uid_too_many_transfers(self, uid: int) -> bool:
        """Say whether a uid's transfers use too many spool files; some files are reserved for other messages."""
        ledger = self._ledger
        open_, ended = (sum(owner == uid for _, owner in transfers) for transfers in (ledger.open, ledger.ended))
        half = max(1, self._limit // 2)
        return open_ >= half or open_ + ended >= half + half // 2 + 1

    def _reject_or_postpone_message(
        self, spooled: MessageWithAuthorUid, refusal: RejectedStarterMessage, is_early: bool
    ) -> list[str]:
        """Keep a message of an unknown transfer for a minute; log and remove any other rejected message."""
        first_at, _ = self.premature.get(spooled.path, (self._clock.steady_s(), spooled))
        if is_early and self._may_premature_message_wait(spooled) and self._clock.steady_s() - first_at < PREMATURE_S:
            self.premature[spooled.path] = first_at, spooled
            return []
        self.premature.pop(spooled.path, None)
        if self._quota.may_write_log_line(spooled.uid):
            why = shorten_reason_for_storage(refusal.reason)
            _log.warning("event=refused uid=%d what=%s why=%r", spooled.uid, refusal.what, why)
        return [spooled.path]

    def _may_premature_message_wait(self, spooled: MessageWithAuthorUid) -> bool:
        of_uid = sum(waiting.uid == spooled.uid for _, waiting in self.premature.values())
        return spooled.path in self.premature or of_uid < PREMATURE_OF_UID


def _key_shared_by_starter_progress_messages(spooled: MessageWithAuthorUid) -> tuple[str, ...]:
    """Return the key that a starter's progress messages share; only the last message with a key is applied."""
    message = spooled.message
    if message.kind != TransferMessageKind.RECORD:
        return (spooled.path,)
    return (message.transfer, str(spooled.uid), message.wake)

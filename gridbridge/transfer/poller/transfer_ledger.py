"""Hold the open and ended transfers in memory and the state file, and publish each task's history."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.decisions.site.service_fault_findings import AwayJob
from gridbridge.decisions.transfer import transfers_in_job_lists
from gridbridge.decisions.transfer.home_and_remote_mismatches import UNDELIVERED_REASON
from gridbridge.model.transfer.transfers_and_actions import OwnerSeenInHomeJobList, Transfer, TransferEvent, TransferKey
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.shell.clock import Clock
from gridbridge.shell.log_file_reopening_and_line_limits import LogLineQuotaByPerson, WithheldLogLines
from gridbridge.state import published_json
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.cluster_failure_breakers import ClusterFailureBreakers
from gridbridge.transfer.poller.published_transfers import History, TransferStatePublisher
from gridbridge.transfer.transfer_history_rows import TransferRows

UNSHOWN = timedelta(minutes=1)  # a closed transfer is published within this time


class TaskHistoryPublisher:
    def __init__(self, cluster: str, database: StateFile, views: TransferStatePublisher) -> None:
        self._cluster, self._transfers, self._views = cluster, TransferRows(database), views
        self._behind: set[str] = set()
        self._known: dict[str, dict[TransferKey, _TransferWithEvents]] = {}

    def mark_unpublished_histories(self) -> None:
        """Mark for publication all histories that an earlier process may not have published."""
        recent: tuple[Transfer, ...] = ()
        if shown_at := published_json.transfers_published_at(self._views.folder):
            recent = self._transfers.transfers_closed_since(shown_at - UNSHOWN)
        for transfer in (*self._transfers.open_transfers(), *recent):
            self.mark_history_for_publication(transfer)

    def mark_history_for_publication(self, transfer: Transfer) -> None:
        name = parse_transfer_name(transfer.name)
        if name.cluster == self._cluster:
            self._behind.add(name.local_job_or_task_id)

    def update_cached_history(self, before: Transfer | None, after: Transfer) -> None:
        if attempts := self._cached_transfers_of_task(after.name):
            attempts.setdefault(after.transfer_key, _TransferWithEvents(after)).transfer = after
        if before and before.with_changes(seen_at=after.seen_at, missed_polls=after.missed_polls) != after:
            self.mark_history_for_publication(after)

    def add_history_event(self, event: TransferEvent) -> None:
        if attempt := self._cached_transfers_of_task(event.name).get((event.name, event.uid)):
            attempt.events.append(event)

    def _cached_transfers_of_task(self, transfer: str) -> "dict[TransferKey, _TransferWithEvents]":
        """Return the cached transfers of a transfer's task; empty if no history of the task was published yet."""
        name = parse_transfer_name(transfer)
        return self._known.get(name.local_job_or_task_id, {}) if name.cluster == self._cluster else {}

    def publish_marked_histories(self) -> None:
        for local in self._behind:
            self._publish_task_history(local)
        self._behind.clear()

    def _publish_task_history(self, local: str) -> None:
        job, _, task = local.partition(".")
        attempts = self._known.pop(local, None) or {
            transfer.transfer_key: _TransferWithEvents(
                transfer, list(self._transfers.events_of_transfer(transfer.name, transfer.uid))
            )
            for transfer in self._transfers.transfers_of_task(self._cluster, int(job), int(task or 0))
        }
        transfers = tuple(attempt.transfer for attempt in attempts.values())
        unproved = transfers_in_job_lists.uids_claiming_unproved_task(transfers)
        if proved := transfers_in_job_lists.proved_owner_uids(transfers):
            self._views.publish_proved_history(local, _transfer_histories_of_uids(attempts, proved))
        for uid in {transfer.uid for transfer in transfers}:
            self._views.publish_unproved_history(local, uid, _transfer_histories_of_uids(attempts, unproved & {uid}))
        if not all(attempt.transfer.is_over for attempt in attempts.values()):
            self._known[local] = attempts

    def sweep_histories(self, before: datetime, living: tuple[Transfer, ...]) -> None:
        """Remove published histories that did not change since `before`, and clear the cache."""
        self._known.clear()
        self._views.remove_old_histories(before, living)


def _transfer_histories_of_uids(
    attempts: "dict[TransferKey, _TransferWithEvents]", uids: frozenset[int]
) -> list[History]:
    theirs = (attempt for attempt in attempts.values() if attempt.transfer.uid in uids)
    listed = (attempt for attempt in theirs if attempt.transfer.listed != OwnerSeenInHomeJobList.NO)
    return [(attempt.transfer, attempt.events) for attempt in listed]


@dataclass(slots=True)
class _TransferWithEvents:
    transfer: Transfer
    events: list[TransferEvent] = field(default_factory=list)


EVENTS_AN_HOUR = 60
LOGGED_AN_HOUR = 4000

_log = logging.getLogger(__name__)


class TransferLedger:
    """Holds the state file's open transfers, and ended transfers whose remote jobs are still watched."""

    def __init__(
        self, database: StateFile, job_history: TaskHistoryPublisher, breakers: ClusterFailureBreakers, clock: Clock
    ) -> None:
        self.open: dict[TransferKey, Transfer] = clock.make_clock_shifted_dictionary(Transfer.shift_times)
        # closed transfers whose remote jobs may still be in job lists
        self.ended: dict[TransferKey, Transfer] = clock.make_clock_shifted_dictionary(Transfer.shift_times)
        # for each uid: names and closing times of closed transfers whose owner is not proved
        self.rested: dict[int, deque[tuple[str, datetime]]] = {}
        self._told_of = LogLineQuotaByPerson(clock.steady_s, EVENTS_AN_HOUR, 3600.0)
        self._logged_of = LogLineQuotaByPerson(clock.steady_s, LOGGED_AN_HOUR, 3600.0)
        self._withheld = WithheldLogLines()  # log lines about transfers whose owner is not proved
        self._clock, self._database, self._transfers = clock, database, TransferRows(database)
        self._job_history, self._breakers = job_history, breakers
        self._told: dict[TransferKey, str] = {}

    def load_transfers(self) -> None:
        now = self._clock.now()  # loaded times may be in the future if the clock was set back
        for transfer in self._transfers.open_transfers():
            self.open[transfer.transfer_key] = transfer.limit_times(now)
        for transfer in self._transfers.watched_closed_transfers():
            self.ended[transfer.transfer_key] = transfer.limit_times(now)
        self._job_history.mark_unpublished_histories()

    def open_transfers(self) -> ValuesView[Transfer]:
        return self.open.values()

    def remote_clusters(self) -> frozenset[str]:
        return frozenset(transfer.remote for transfer in self.open_transfers())

    def away_jobs(self) -> frozenset[AwayJob]:
        """Return owner, remote cluster and transfer queue of each open transfer."""
        return frozenset(map(config_sections_of_transfer, self.open_transfers()))

    def open_transfers_with_keys(self, keys: Iterable[TransferKey]) -> tuple[Transfer, ...]:
        return tuple(self.open[key] for key in set(keys) & self.open.keys())

    def find_transfer(self, key: TransferKey) -> Transfer | None:
        """Return the open or closed transfer with this key."""
        return self.open.get(key) or self._transfers.find_transfer(*key)

    def attempts_of_task(self, transfer: str, uid: int) -> tuple[Transfer, ...]:
        """Return the open and closed transfers of the given transfer's task that belong to `uid`."""
        name = parse_transfer_name(transfer)
        all_attempts = self._transfers.transfers_of_task(name.cluster, name.job, name.task)
        return tuple(attempt for attempt in all_attempts if attempt.uid == uid)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all changes of a `with` block in the state file, or no change at all."""
        with self._database.transaction():
            yield

    def store_transfer(self, transfer: Transfer) -> None:
        """Store a new or changed transfer in memory and in the state file."""
        if not transfer.is_over:
            self.ended.pop(transfer.transfer_key, None)
        before = self.open.get(transfer.transfer_key)
        self._job_history.update_cached_history(before, transfer)
        self._breakers.count_transfer_change(before, transfer, self.open.values())
        self._transfers.insert_or_update_transfer(transfer)
        self.open[transfer.transfer_key] = transfer
        self._log_withheld_lines(transfer)

    def reopen_transfer(self, ended_transfer: Transfer) -> None:
        """Reopen a closed transfer whose end home has missed, unless its task was sent again in the meantime."""
        names = [attempt.name for attempt in self.attempts_of_task(ended_transfer.name, ended_transfer.uid)]
        if names[-1:] == [ended_transfer.name] and ended_transfer.transfer_key not in self.open:
            self.store_transfer(ended_transfer.with_changes(closed_at=None, updated_at=self._clock.now()))
            self.add_history_line(ended_transfer, UNDELIVERED_REASON)

    def store_owner_proof(self, closed: Transfer) -> None:
        """Store and publish whether the home job list proves the owner of a closed transfer."""
        if transfer := self._transfers.find_transfer(*closed.transfer_key):
            transfer = transfer.with_changes(listed=closed.listed)
            self._transfers.insert_or_update_transfer(transfer)
            self._job_history.update_cached_history(None, transfer)
            self._job_history.mark_history_for_publication(transfer)
            self._log_withheld_lines(transfer)
        if closed.transfer_key in self.ended:
            self.ended[closed.transfer_key] = self.ended[closed.transfer_key].with_changes(listed=closed.listed)

    def record_guard_removal(self, closed: Transfer) -> None:
        """Record that no hold or start time keeps the task of a closed transfer from starting at home."""
        newest = self._transfers.find_transfer(*closed.transfer_key) or closed
        self._transfers.insert_or_update_transfer(newest.with_changes(reguarded=False))
        if transfer := self.ended.get(closed.transfer_key):
            self.ended[closed.transfer_key] = transfer.with_changes(reguarded=False)

    def store_all_transfers(self) -> None:
        """Store all transfers in the state file again, after a change of the clock has moved their times."""
        with self.transaction():
            for transfer in (*self.open.values(), *self.ended.values()):
                self._job_history.update_cached_history(None, transfer)
                self._transfers.insert_or_update_transfer(transfer)

    def add_history_line(self, transfer: Transfer, text: str) -> None:
        """Add a line to a transfer's history and to the log, unless the last line has the same text."""
        if self._told.get(transfer.transfer_key) == text:
            return
        self._told[transfer.transfer_key] = text
        self._logged_of.log_omitted_line_counts(_log)
        for of, count in self._told_of.take_omitted_line_counts().items():
            _log.warning("event=left_out of=%s events=%d", of, count)
        if not self._told_of.may_write_log_line(transfer.transfer_key):
            return
        self._job_history.mark_history_for_publication(transfer)
        event = TransferEvent(name=transfer.name, uid=transfer.uid, at=self._clock.now(), text=text)
        self._transfers.add_transfer_event(event)
        self._job_history.add_history_event(event)
        if transfer.listed == OwnerSeenInHomeJobList.YES or self._logged_of.may_write_log_line(transfer.uid):
            _log_transfer_history_line(transfer, text)
        else:
            self._withheld.withhold_log_line(transfer.uid, transfer.transfer_key, text)

    def _log_withheld_lines(self, transfer: Transfer) -> None:
        """Log the withheld lines of a transfer whose owner the home job list has proved."""
        is_proved = transfer.listed == OwnerSeenInHomeJobList.YES
        if is_proved or (transfer.listed and transfer.is_over):
            for text in self._withheld.take_withheld_lines(transfer.uid, transfer.transfer_key):
                if is_proved:
                    _log_transfer_history_line(transfer, text)

    def move_to_ended(self, transfer: Transfer) -> None:
        """Move a closed transfer to the ended transfers, whose remote jobs are still watched."""
        self.open.pop(transfer.transfer_key, None)
        self._told.pop(transfer.transfer_key, None)
        if transfer.record:
            self.ended[transfer.transfer_key] = transfer

    def stop_watching_remote_job(self, transfer: Transfer) -> None:
        """Stop watching the remote job of an ended transfer; its message file is already removed."""
        self.ended.pop(transfer.transfer_key, None)
        self._told.pop(transfer.transfer_key, None)
        self._transfers.insert_or_update_transfer(transfer.with_changes(record=""))
        if transfer.listed != OwnerSeenInHomeJobList.YES and transfer.closed_at:
            self.rested.setdefault(transfer.uid, deque()).append((transfer.name, transfer.closed_at))

    def delete_unproved_transfer(self, name: str, uid: int) -> None:
        self._transfers.delete_unproved_transfer(name, uid)

    def sweep_unproved_transfers(self, before: datetime) -> None:
        self._transfers.delete_unproved_transfers(before)
        for uid, rested in tuple(self.rested.items()):
            while rested and rested[0][1] < before:
                rested.popleft()
            if not rested:
                del self.rested[uid]


def _log_transfer_history_line(transfer: Transfer, text: str) -> None:
    _log.info("event=transfer name=%s text=%r", transfer.name, text)


def config_sections_of_transfer(transfer: Transfer) -> AwayJob:
    """Return the parts of gridbridge.toml that a transfer needs: its owner, cluster and transfer queue."""
    return transfer.owner, transfer.remote, transfer.queue

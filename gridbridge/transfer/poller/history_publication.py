"""Publish each local task's history from the state file when transfers change.

The histories of open transfers are cached: reading a history for every change would cost as much
as writing the history.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gridbridge.decisions.transfer import local_task_ownership
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer, TransferEvent, TransferKey
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.state.database import StateFile
from gridbridge.transfer.poller.published_transfers import History, TransferStatePublisher
from gridbridge.transfer.store.transfer_rows import TransferRows

UNSHOWN = timedelta(minutes=1)  # longest time between a transfer's close and its publication


class TaskHistoryPublisher:
    """Publishes task histories; remembers tasks with an outdated published history."""

    def __init__(self, cluster: str, database: StateFile, views: TransferStatePublisher) -> None:
        self._cluster = cluster
        self._transfers = TransferRows(database)
        self._views = views
        self._behind: set[str] = set()
        self._known: dict[str, dict[TransferKey, _Attempt]] = {}  # attempts by local task

    def load(self) -> None:
        """Mark for publication the histories that an earlier service may not have published."""
        recent: tuple[Transfer, ...] = ()
        if shown_at := self._views.shown_at():
            recent = self._transfers.closed_since(shown_at - UNSHOWN)
        for transfer in (*self._transfers.open(), *recent):
            self.touch(transfer)

    def touch(self, transfer: Transfer) -> None:
        """Mark a transfer's task, so that this round publishes the task's history."""
        name = parse_transfer_name(transfer.name)
        if name.cluster == self._cluster:
            self._behind.add(name.local)

    def keep(self, before: Transfer | None, after: Transfer) -> None:
        """Update a transfer in its task's history; republish the task after a change."""
        if attempts := self._attempts(after.name):
            attempts.setdefault(after.key, _Attempt(after)).transfer = after
        if before and before.but(seen_at=after.seen_at, missed_polls=after.missed_polls) != after:
            self.touch(after)

    def add(self, event: TransferEvent) -> None:
        """Add an event to a transfer's cached history."""
        if attempt := self._attempts(event.name).get((event.name, event.uid)):
            attempt.events.append(event)

    def _attempts(self, transfer: str) -> "dict[TransferKey, _Attempt]":
        """Return the cached attempts of a transfer's task; empty before a publication."""
        name = parse_transfer_name(transfer)
        return self._known.get(name.local, {}) if name.cluster == self._cluster else {}

    def publish(self) -> None:
        """Publish the history of each task that changed."""
        for local in self._behind:
            self._show(local)
        self._behind.clear()

    def _show(self, local: str) -> None:
        attempts = self._known.pop(local, None) or self._load(local)
        transfers = tuple(attempt.transfer for attempt in attempts.values())
        proved, unproved = (
            local_task_ownership.proved_owner_uids(transfers),
            local_task_ownership.uids_claiming_unproved_task(transfers),
        )
        if proved:
            self._views.task(local, _of(attempts, proved))
        for uid in {transfer.uid for transfer in transfers}:
            self._views.unproved_task(local, uid, _of(attempts, unproved & {uid}))
        if not all(attempt.transfer.is_over for attempt in attempts.values()):
            self._known[local] = attempts

    def _load(self, local: str) -> "dict[TransferKey, _Attempt]":
        job, _, task = local.partition(".")
        attempts = self._transfers.of_task(self._cluster, int(job), int(task or 0))
        return {
            transfer.key: _Attempt(transfer, list(self._transfers.events(transfer.name, transfer.uid)))
            for transfer in attempts
        }

    def sweep(self, before: datetime, living: tuple[Transfer, ...]) -> None:
        """Remove published histories unchanged since `before`, and clear the cache."""
        self._known.clear()
        self._views.sweep(before, living)


def _of(attempts: "dict[TransferKey, _Attempt]", uids: frozenset[int]) -> list[History]:
    """Return the histories of some uids' attempts, except attempts that home refuted."""
    theirs = (attempt for attempt in attempts.values() if attempt.transfer.uid in uids)
    return [(attempt.transfer, attempt.events) for attempt in theirs if attempt.transfer.listed != OwnershipProof.NO]


@dataclass(slots=True)
class _Attempt:
    """One transfer of a task, with its history events in order."""

    transfer: Transfer
    events: list[TransferEvent] = field(default_factory=list)

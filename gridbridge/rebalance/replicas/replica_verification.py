"""Verifies replicas that were not read for long, each by its owner's own process.

Rounds do not wait for the verification. An unreadable dataset moves to the end of its owner's
queue, and an owner with unreadable or many datasets does not delay other owners. A failed dataset
is retried after an hour, because its owner's home may have been unmounted.
"""

import logging
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from gridbridge.model.rebalance.datasets import DelegatedDataset
from gridbridge.model.rebalance.placement_snapshot import NEVER, past_moment_or_never
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.rebalance.replicas import dataset_delegation as letters
from gridbridge.rebalance.replicas import dataset_owner_processes
from gridbridge.rebalance.store.rebalance_tables import RebalanceNoteRows
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile

LONGEST_S = 3600.0  # time after which the round starts no further dataset
AGAIN_S = 3600.0  # pause before an unreadable dataset is read again

_log = logging.getLogger(__name__)


class OverdueReplicaVerifier:
    """Verifies replicas that are due, and records each attempt."""

    def __init__(self, rules: RebalanceSection, database: StateFile, clock: Clock) -> None:
        self._rules = rules
        self._notes = RebalanceNoteRows(database)
        self._clock = clock

    def read(self) -> None:
        """Verify the due datasets: some owners in parallel, each owner's datasets one by one."""
        if self._notes.quiesced() is not None:
            return
        now = self._clock.now()
        tried = {name: past_moment_or_never(at, now) for name, at in self._notes.read().items()}
        unread = {name: past_moment_or_never(at, now) for name, at in self._notes.unread().items()}
        again = {name for name, at in unread.items() if at <= now - timedelta(seconds=AGAIN_S)}
        due = now - timedelta(seconds=self._rules.verify_every_s)
        lines = _lines(
            dataset_owner_processes.query_owners_for_datasets(letters.list_dataset_delegations()),
            tried,
            due,
            now,
            again,
        )
        with ThreadPoolExecutor(self._rules.copies_at_once) as pool:
            for read, failed in pool.map(lambda line: self._read(line, now), lines):
                self._notes.note_read(read, failed, self._clock.now())

    def _read(self, line: list[DelegatedDataset], began_at: datetime) -> tuple[list[str], list[str]]:
        """Verify an owner's datasets up to a failure; return verified and failed names."""
        read: list[str] = []
        for delegated in line:
            if self._clock.now() - began_at > timedelta(seconds=LONGEST_S):
                break
            if why := dataset_owner_processes.verify_dataset_as_owner(delegated):
                _log.warning("event=dataset_unread file=%s why=%r", delegated.file, why)
                return read, [delegated.name]
            read.append(delegated.name)
        return read, []


def _lines(
    datasets: list[DelegatedDataset], tried: Mapping[str, datetime], due: datetime, now: datetime, again: Container[str]
) -> list[list[DelegatedDataset]]:
    """Return each owner's due datasets, oldest first; recently served owners come last.

    The datasets in `again` are due at any time, to retry a failed verification.
    """
    turns: dict[str, datetime] = {}
    for name, at in tried.items():
        owner = name.partition("/")[0]
        turns[owner] = max(at, turns.get(owner, at))
    lines: dict[str, list[DelegatedDataset]] = {}
    read_at = {delegated.name: _read_at(delegated, tried, now) for delegated in datasets}
    for delegated in sorted(datasets, key=lambda delegated: (read_at[delegated.name], delegated.name)):
        is_due = delegated.name in again or read_at[delegated.name] <= due
        if is_due and not delegated.is_busy and delegated.dataset.replicas:
            lines.setdefault(delegated.owner, []).append(delegated)
    return [lines[owner] for owner in sorted(lines, key=lambda name: (turns.get(name, NEVER), name))]


def _read_at(delegated: DelegatedDataset, tried: Mapping[str, datetime], now: datetime) -> datetime:
    """Return when a dataset's replicas were last read, or when reading was last tried."""
    read = (past_moment_or_never(replica.checked_at, now) for replica in delegated.dataset.replicas)
    read_at = min(read, default=NEVER)
    return max(read_at, tried.get(delegated.name, read_at))

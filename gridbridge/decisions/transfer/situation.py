"""The situation that a decision looks at: what is known of all clusters at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gridbridge.model.ids import parse_transfer
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus
from gridbridge.model.transfer.transfer_row import Key, Transfer

EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSituation:
    """What is known at one moment: the last good answer of each cluster, by name."""

    home: str
    now: datetime
    snapshots: Mapping[str, ClusterSnapshot]
    asleep: frozenset[str]  # FIFOs on which a starter sleeps
    requeued_jobs: frozenset[int] = frozenset()  # local jobs of which a task waits for adoption
    dropped: frozenset[str] = frozenset()  # clusters that are not in gridbridge.toml any more
    queues: frozenset[str] = frozenset()  # the transfer queues at home
    with_new_starter: frozenset[Key] = frozenset()  # their tasks' new starters ask
    since: datetime = EVER  # when we began to ask
    deleted_at_home: Mapping[str, datetime] = field(default_factory=dict)  # since when, by name
    reused_ids: frozenset[Key] = frozenset()  # transfers whose remote id another job has

    def at_home(self, transfer: Transfer) -> JobStatus | None:
        """Return what home last listed of a transfer's task; None for nothing."""
        local = self.snapshots.get(self.home)
        return row_at_home(transfer, local) if local else None

    def row(self, transfer: Transfer) -> JobStatus | None:
        """Return what its cluster last listed of a transfer's job; None for nothing.

        It is found by its id, or by the transfer's name while the id is unknown. Anybody may give
        a job our name or claim an id, so another's job is never ours.
        """
        remote = self.snapshots.get(transfer.remote)
        if remote is None or transfer.key in self.reused_ids:
            return None
        if transfer.remote_id:
            return _own(remote.find(transfer.remote_id), transfer)
        rows = (row for rows in remote.jobs.values() for row in rows)
        return next(
            (row for row in rows if row.name == transfer.name and _own(row, transfer)), None
        )


def row_at_home(transfer: Transfer, local: ClusterSnapshot) -> JobStatus | None:
    """Return the local task, if its owner is the transfer's; others may only claim it."""
    name = parse_transfer(transfer.name)
    return _own(local.find(name.job, name.task), transfer)


def _own(row: JobStatus | None, transfer: Transfer) -> JobStatus | None:
    return row if row and row.owner == transfer.owner else None

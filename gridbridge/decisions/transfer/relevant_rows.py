"""The part of a situation on which a decision about some transfers depends: what is kept of it."""

from collections.abc import Collection
from dataclasses import replace

from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.ids import parse_transfer
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.transfer_row import Transfer


def relevant_rows(
    transfers: Collection[Transfer], situation: TransferSituation
) -> TransferSituation:
    """Return the smallest situation in which the same is decided about these transfers.

    The counts of a snapshot stay as they are; of its rows only those stay that a decision may look
    at.
    """
    local_ids = {parse_transfer(transfer.name).job for transfer in transfers}
    names = {transfer.name for transfer in transfers}
    return replace(
        situation,
        snapshots={
            name: _rows(snapshot, transfers, local_ids if name == situation.home else set())
            for name, snapshot in situation.snapshots.items()
            if name == situation.home or any(transfer.remote == name for transfer in transfers)
        },
        asleep=situation.asleep & {transfer.wake for transfer in transfers},
        requeued_jobs=situation.requeued_jobs & local_ids,
        dropped=situation.dropped & {transfer.remote for transfer in transfers},
        with_new_starter=situation.with_new_starter & {transfer.key for transfer in transfers},
        deleted_at_home={
            name: since for name, since in situation.deleted_at_home.items() if name in names
        },
    )


def _rows(
    snapshot: ClusterSnapshot, transfers: Collection[Transfer], ids: set[int]
) -> ClusterSnapshot:
    """Keep only the rows of these job ids, and rows with the id or name of a transfer."""
    at_cluster = [transfer for transfer in transfers if transfer.remote == snapshot.cluster]
    ids = ids | {transfer.remote_id for transfer in at_cluster}
    names = {transfer.name for transfer in at_cluster}
    jobs = {
        job: rows
        for job, rows in snapshot.jobs.items()
        if job in ids or any(row.name in names for row in rows)
    }
    queues = {row.queue for rows in jobs.values() for row in rows}
    return replace(
        snapshot,
        jobs=jobs,
        queues=tuple(queue for queue in snapshot.queues if queue.name in queues),
        copies=(),
    )

"""Keep the last snapshot of each cluster, and publish it with its local-only queues."""

import logging
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from datetime import timedelta

from gridbridge.decisions.transfer.transfer_queue_admission import find_local_only_queues
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.names_offered_by_cluster import encode_non_forwarding_queues
from gridbridge.program.watch.cluster_observer import ClusterObserver, ClusterQueryResult, ClusterSnapshotSharing
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import published_file_formats
from gridbridge.state.database import StateFile
from gridbridge.state.database.cluster_query_tables import ClusterQueryLogRows
from gridbridge.state.published_files import publish_file

FAILED_IN_A_ROW = 2  # failed queries that close a cluster's queues: one may be an accident

_snapshots_log = logging.getLogger(__name__)


class LastClusterSnapshots:
    """Holds the last good snapshot of each cluster; failed queries do not replace it."""

    def __init__(
        self,
        observers: Mapping[str, ClusterObserver],
        database: StateFile,
        show: Callable[[ClusterQueryResult, ClusterSnapshot | None], None],
        clock: Clock,
    ) -> None:
        self.good: dict[str, ClusterSnapshot] = clock.dated(_moved)
        self._clock = clock
        self._failed: Counter[str] = Counter()  # failures in a row by cluster
        self._observers = observers
        self._snapshots = ClusterQueryLogRows(database)
        self._sharing = ClusterSnapshotSharing(database, clock)
        self._show = show

    def take(self) -> tuple[ClusterQueryResult, ...]:
        """Return the cluster query results that arrived since the last call."""
        came = tuple(answer for observer in self._observers.values() if (answer := observer.answer()))
        for answer in came:
            self._remember(answer)
        return came

    def silent(self) -> frozenset[str]:
        """Return the clusters whose last two queries failed."""
        return frozenset(name for name, times in self._failed.items() if times >= FAILED_IN_A_ROW)

    def forget(self, cluster: str) -> None:
        """Drop a cluster's results, because its address changed or it is no longer queried."""
        self.good.pop(cluster, None)
        self._failed.pop(cluster, None)

    def _remember(self, answer: ClusterQueryResult) -> None:
        if answer.snapshot:
            self.good[answer.cluster] = answer.snapshot
            self._failed.pop(answer.cluster, None)
        else:
            self._failed[answer.cluster] += 1
            _snapshots_log.warning("event=no_answer cluster=%s why=%r", answer.cluster, answer.trouble)
        self._snapshots.record(
            cluster=answer.cluster,
            taken_at=answer.snapshot.taken_at if answer.snapshot else self._clock.now(),
            ok=answer.snapshot is not None,
            took=timedelta(seconds=answer.took_s),
            summary=_summary(answer),
        )
        if answer.shared:
            self._sharing.put(answer.cluster, answer.shared)
        self._show(answer, self.good.get(answer.cluster))


def _moved(snapshot: ClusterSnapshot, step: timedelta) -> ClusterSnapshot:
    return replace(snapshot, taken_at=snapshot.taken_at + step)


def _summary(answer: ClusterQueryResult) -> dict[str, object]:
    if answer.snapshot is None:
        return {"trouble": answer.trouble}
    return {"pending": answer.snapshot.pending, "free_slots": answer.snapshot.free_slots}


def publish_non_forwarding_queues(
    snapshot: ClusterSnapshot, transfer_queues: Container[str] = (), folder: str = PUBLISHED
) -> None:
    """Publish the queues that transfer no jobs, if the list has changed.

    Poller and runner both call this function whenever they get a snapshot.
    """
    queues = find_local_only_queues(snapshot.queues, transfer_queues)
    now = encode_non_forwarding_queues(queues) if queues else None
    if published_file_formats.read_non_forwarding_queues(snapshot.cluster, folder) == now:
        return
    path = published_file_formats.non_forwarding_queues_path(snapshot.cluster, folder)
    if now:
        publish_file(path, now)
    else:
        safe_files.remove_file(path)

"""Share cluster snapshots between the service's programs through the state file.

So each cluster is queried once for all programs. A reader checks a snapshot's age, and which
submitted jobs it covers: those were recorded before the query, so a covered job that is not listed
is gone. Jobs submitted later are unknown to the snapshot. Snapshots of another version or address
are ignored.
"""

import logging
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import datetime

from gridbridge import __version__
from gridbridge.errors import describe_error
from gridbridge.model.route import Away, SshLogin
from gridbridge.model.snapshot import ClusterSnapshot, SentJob
from gridbridge.shell.clock import Clock
from gridbridge.state import snapshot_codec
from gridbridge.state.database import StateFile
from gridbridge.state.database.snapshots import LastClusterQuery, LastClusterQueryRows

AHEAD_S = 1.0  # tolerated seconds in the future, because clocks are slewed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedClusterSnapshot:
    """A cluster's snapshot that another program fetched, or its error."""

    snapshot: ClusterSnapshot | None = None
    trouble: str = ""
    is_regular: bool = False  # from the poller, which queries regularly


class ClusterSnapshotSharing:
    """Reads and writes the shared cluster snapshots."""

    def __init__(self, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        """Open the table; a dry run writes nothing."""
        self._answers = LastClusterQueryRows(database)
        self._clock = clock
        self._is_dry = is_dry

    def put(self, cluster: str, answer: LastClusterQuery) -> None:
        """Share a snapshot or the error of a query."""
        if not self._is_dry:
            self._answers.put(cluster, answer)

    def find(
        self, cluster: str, location: str, released: frozenset[str], limit_s: float
    ) -> SharedClusterSnapshot | None:
        """Return a recent snapshot from this address that covers the released jobs.

        A snapshot counts as recent below `limit_s`, or until its program's next regular query.
        """
        last = self._answers.find(cluster)
        if last is None or last.place != location or not released <= last.covers:
            return None
        age_s = (self._clock.now() - last.asked_at).total_seconds()
        if not -AHEAD_S <= age_s < max(limit_s, last.every_s):
            return None
        is_regular = last.every_s > 0
        if last.trouble:
            return SharedClusterSnapshot(trouble=last.trouble, is_regular=is_regular)
        snapshot = _read(cluster, last)
        return SharedClusterSnapshot(snapshot=snapshot, is_regular=is_regular) if snapshot else None


def query_result_to_share(
    snapshot: ClusterSnapshot | None,
    sent: SentJob,
    location: str,
    now: datetime,
    *,
    every_s: float = 0.0,
    trouble: str = "",
) -> LastClusterQuery:
    """Return the row to share: queues and submitted jobs of a snapshot, or the error."""
    return LastClusterQuery(
        place=location,
        asked_at=snapshot.taken_at if snapshot else now,
        every_s=every_s,
        covers=sent.released,
        trouble=trouble,
        content=snapshot_codec.encode_snapshot(snapshot, sent.jobs) if snapshot else b"",
    )


def snapshot_without_jobs(snapshot: ClusterSnapshot, jobs: Set[int]) -> ClusterSnapshot:
    """Return a snapshot without the jobs of these ids."""
    remaining = {number: rows for number, rows in snapshot.jobs.items() if number not in jobs}
    return snapshot if len(remaining) == len(snapshot.jobs) else replace(snapshot, jobs=remaining)


def identify_cluster_query(where: Away, transfer_queues: Iterable[str]) -> str:
    """Return a text that identifies program version, cluster address and transfer queues."""
    return " ".join((__version__, where.kind, *_words(where), *transfer_queues))


def _words(where: Away | SshLogin) -> Iterator[str]:
    for name in where.__slots__:
        value = getattr(where, name)
        yield from _words(value) if isinstance(value, SshLogin) else (f"{name}={value}",)


def _read(cluster: str, last: LastClusterQuery) -> ClusterSnapshot | None:
    try:
        return snapshot_codec.decode_snapshot(last.content, cluster, last.asked_at)
    except Exception as error:  # any content is possible: the cluster is queried
        _log.warning("event=not_shared cluster=%s why=%r", cluster, describe_error(error))
        return None

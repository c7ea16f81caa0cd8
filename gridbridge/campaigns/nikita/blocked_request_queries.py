"""Local requests that wait for what best-effort tasks hold: whom nikita ends tasks for.

A cluster is asked only while tasks of ours run in its best-effort queues and something waits there.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import timedelta

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.campaigns.store.cancellation_marks import Marked, PreemptionRows
from gridbridge.decisions.campaigns.preemption import blocked_requests as rules
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import Array
from gridbridge.model.campaigns.crowded_cell import CrowdedCell, ResourceShortage
from gridbridge.model.campaigns.preemption import BlockedRequest, OwnTask, Preemption, Request
from gridbridge.model.policy import Policy
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.shell.clock import Clock

NOTHING = CrowdedCell()
KEPT = timedelta(days=7)  # for a job that waits longer nothing is remembered

_log = logging.getLogger(__name__)


class BlockedRequestQueries:
    """What a cycle sees of them."""

    def __init__(self, policy: Policy, ways: PreemptionRows, clock: Clock) -> None:
        self._policy = policy
        self._ways = ways
        self._clock = clock
        self._ours: dict[str, dict[int, OwnTask]] = {}

    def look(
        self,
        arrays: Iterable[Array],
        answers: Mapping[str, ClusterSnapshot],
        marks: Marked,
        cancelled: Set[int],
    ) -> tuple[BlockedRequest, ...]:
        """Return the requests for which tasks of these arrays might end."""
        self._ours = {name: {} for name, snapshot in answers.items() if snapshot.pending}
        for array in arrays:
            snapshot = answers[array.cluster]
            if snapshot.pending and _is_besteffort(array, snapshot):
                self._ours[array.cluster][array.job_id] = OwnTask(
                    campaign=array.campaign,
                    array=array.number,
                    ending=frozenset(marks.get((array.campaign, array.number), ())),
                    is_ending=array.campaign in cancelled,
                )
        now = self._clock.now()
        recent = rules.recent(self._ways.tried(now - KEPT), now)
        crowded = (name for name, ours in self._ours.items() if ours)
        return tuple(request for name in crowded for request in self._at(name, recent))

    def _at(self, cluster: str, recent: Set[Request]) -> Iterator[BlockedRequest]:
        """Give those of one cluster, each with the places that it may have."""
        cell = self._ask(cluster)
        for request in rules.contests(cluster, cell, self._ours[cluster], recent):
            names = self._could_start(cluster, request.asked)
            hosts = tuple(host for host in request.places if host.name in names)
            if hosts:
                yield replace(request, places=hosts)

    def still(self, way: Preemption) -> Preemption | None:
        """Ask once more, and return what is right now; None for nothing."""
        return rules.still(way, self._ask(way.cluster), self._ours[way.cluster])

    def _ask(self, cluster: str) -> CrowdedCell:
        where = away(self._policy, cluster)
        shows = adapter_of(where).shows_crowd
        try:
            return shows.crowded(where) if shows else NOTHING
        except GridbridgeError as error:
            _log_unanswered(cluster, error)
            return NOTHING

    def _could_start(self, cluster: str, shortage: ResourceShortage) -> frozenset[str]:
        where = away(self._policy, cluster)
        shows = adapter_of(where).shows_crowd
        try:
            return shows.could_start(where, shortage) if shows else frozenset()
        except GridbridgeError as error:
            _log_unanswered(cluster, error)
            return frozenset()


def _is_besteffort(array: Array, snapshot: ClusterSnapshot) -> bool:
    """Say whether a task of an array runs in a best-effort queue."""
    queues = {queue.name for queue in snapshot.queues if queue.is_besteffort}
    return any(row.queue in queues for row in snapshot.jobs.get(array.job_id, ()))


def _log_unanswered(cluster: str, error: GridbridgeError) -> None:
    _log.warning("event=no_requests cluster=%s why=%r", cluster, str(error))

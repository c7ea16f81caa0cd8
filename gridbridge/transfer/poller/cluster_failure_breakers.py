"""Count each cluster's fast job failures (breaker), and publish and log which transfer queues the failures close."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.decisions.transfer import circuit_breaker
from gridbridge.decisions.transfer.circuit_breaker import BreakerEvidence
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.published_status_and_reports import PublishedBreakersOfClusters, PublishedClusterBreaker
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfer_config_sections import BreakerSection
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferKey
from gridbridge.shell.clock import Clock
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher

_log = logging.getLogger(__name__)


class ClusterFailureBreakers:
    """Counts the fast job failures at each remote cluster; published counts survive a restart of the poller."""

    def __init__(self, policy: BreakerSection, views: TransferStatePublisher, clock: Clock) -> None:
        self._policy, self._views, self._clock = policy, views, clock
        self._known: dict[str, PublishedClusterBreaker] = clock.make_clock_shifted_dictionary(
            lambda state, step: replace(state, until=state.until and state.until + step)
        )
        # a published pause is too long if the clock was set back in the meantime
        self._known.update(
            {state.cluster: self._limit_breaker_pause(state) for state in views.read_published_breakers()}
        )
        # results of jobs whose owner is not proved yet, by owner and cluster
        self._unproved: dict[tuple[str, str], dict[int, BreakerEvidence]] = {}
        self._proved: set[TransferKey] = set()  # transfers whose task the home job list has shown in its queue
        # for each cluster: the end of its pause, and when each owner's first job after the pause began
        self._probes: dict[str, tuple[datetime | None, dict[str, datetime]]] = {}

    def use_changed_configuration(self, policy: Policy) -> None:
        """Use a changed configuration; shorten pauses that exceed the new `pause_max_s`."""
        self._policy = policy.breaker
        before = dict(self._known)
        self._known.update({name: self._limit_breaker_pause(state) for name, state in before.items()})
        if self._known != before:
            self._publish_breakers()

    def count_transfer_change(self, before: Transfer | None, transfer: Transfer, transfers: Iterable[Transfer]) -> None:
        """Count a remote job's success or failure, if need be only after the home job list has shown its owner."""
        observation = circuit_breaker.breaker_evidence_of_transfer(before, transfer, self._policy)
        if observation is None:
            return
        if transfer.transfer_key in self._proved:
            self._count_job_success_or_failure(observation, self._transfers_with_task_seen_in_queue(transfers))
            return
        breaker = self._breaker_of_cluster(transfer.remote)
        self._store_breaker(circuit_breaker.clear_owner_breaker_failures(breaker, observation))
        waiting = self._unproved.setdefault((transfer.owner, transfer.remote), {})
        if observation.home_job_number in waiting or len(waiting) < self._policy.failures:
            waiting[observation.home_job_number] = observation

    def count_proved_job_results(self, home: ClusterSnapshot, transfers: Collection[Transfer]) -> None:
        """Count the results of tasks in the home job list, and drop other results; results newer than the list wait."""
        self._proved &= {transfer.transfer_key for transfer in transfers}
        self._proved.update(
            transfer.transfer_key
            for transfer in transfers
            if transfer.transfer_key not in self._proved and circuit_breaker.is_owner_task_in_home_queue(transfer, home)
        )
        for key, waiting in tuple(self._unproved.items()):
            due = [
                observation
                for observation in waiting.values()
                if observation.transfer.is_unchanged_since_query(home.taken_at)
            ]
            for observation in due:
                del waiting[observation.home_job_number]
                if circuit_breaker.is_owner_task_in_home_queue(observation.transfer, home):
                    self._count_job_success_or_failure(observation, self._transfers_with_task_seen_in_queue(transfers))
            if not waiting:
                del self._unproved[key]

    def local_jobs_without_proved_owner(self) -> set[int]:
        """Return the ids of the local jobs that the next home job list must show."""
        return {job for waiting in self._unproved.values() for job in waiting}

    def drop_unproved_evidence(self) -> None:
        """Drop job results without a proved owner and publish all counts, after a change of the clock."""
        self._unproved.clear()
        self._publish_breakers()

    def clusters_with_closed_queues(self, transfers: Iterable[Transfer]) -> frozenset[str]:
        """Return the clusters whose transfer queues are closed now because of job failures."""
        now, everyone = self._clock.now(), self._transfers_with_task_seen_in_queue(transfers)
        return frozenset(
            name
            for name, state in self._known.items()
            if circuit_breaker.does_breaker_close_queues(
                state, self._first_job_times(state, everyone), now, self._policy
            )
        )

    def _first_job_times(self, state: PublishedClusterBreaker, transfers: Collection[Transfer]) -> dict[str, datetime]:
        """Return the start of each owner's first job after the pause of closed queues, even if the job has ended."""
        if not state.until:
            return {}
        until, before = self._probes.get(state.cluster, (None, {}))
        earlier = before if until == state.until else {}
        probes = circuit_breaker.first_probe_time_of_each_owner(state, transfers) | earlier
        self._probes[state.cluster] = state.until, probes
        return probes

    def _transfers_with_task_seen_in_queue(self, transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
        return tuple(transfer for transfer in transfers if transfer.transfer_key in self._proved)

    def reasons_of_failing_clusters(self) -> dict[str, str]:
        """Return the clusters where jobs failed and no job has run since, each with the reason."""
        return {name: f"jobs fail at {name}" for name, state in self._known.items() if state.times}

    def _breaker_of_cluster(self, cluster: str) -> PublishedClusterBreaker:
        return self._known.get(cluster, PublishedClusterBreaker(cluster=cluster))

    def _count_job_success_or_failure(self, observation: BreakerEvidence, transfers: Iterable[Transfer]) -> None:
        before, now = self._breaker_of_cluster(observation.transfer.remote), self._clock.now()
        self._store_breaker(circuit_breaker.update_breaker(before, observation, transfers, now, self._policy))

    def _store_breaker(self, state: PublishedClusterBreaker) -> None:
        previous = self._breaker_of_cluster(state.cluster)
        if state == previous:
            return
        self._known[state.cluster] = state
        if state.until and state.until != previous.until:
            until = f"{state.until:%FT%TZ}"
            words = f"event=closed cluster={state.cluster} until={until} times={state.times}"
            _log.error("%s cause=%s owners=%s", words, state.cause, ",".join(state.owners))
        elif previous.times and not state.times:
            _log.warning("event=opened cluster=%s why='a job ran there'", state.cluster)
        self._publish_breakers()

    def _limit_breaker_pause(self, state: PublishedClusterBreaker) -> PublishedClusterBreaker:
        latest = self._clock.now() + timedelta(seconds=self._policy.pause_max_s)
        return replace(state, until=state.until and min(state.until, latest))

    def _publish_breakers(self) -> None:
        self._views.publish_breakers(PublishedBreakersOfClusters(breakers=tuple(self._known.values())))

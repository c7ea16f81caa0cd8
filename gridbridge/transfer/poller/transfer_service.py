"""Start and stop the transfer service, and run its rounds.

A killed service loses no transfer: a message leaves the spool only after the state file has its
content, and every act is safe to repeat. Module `transfer_round` has the steps of a round.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Self

from gridbridge.decisions.site.service_fault_findings import AwayJob
from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.model.cluster_snapshot import CampaignJobsAtCluster
from gridbridge.model.policy import Policy
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import service_cycle
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.transfer.poller import poller_components
from gridbridge.transfer.poller import poller_components as acting
from gridbridge.transfer.poller import poller_components as maintenance
from gridbridge.transfer.poller import poller_components as program
from gridbridge.transfer.poller.poller_components import (
    PollerActComponents,
    PollerReconcilers,
    PollerResources,
    PollerStateComponents,
)
from gridbridge.transfer.poller.transfer_round import PollRoundSteps

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TransferService:
    """The transfer service: configuration, resources, state, acts and rounds."""

    policy: Policy
    resources: PollerResources
    known: PollerStateComponents
    acting: PollerActComponents
    maintenance: PollerReconcilers
    program: PollRoundSteps

    @classmethod
    def of(cls, policy: Policy, resources: PollerResources) -> Self:
        """Build the service from groups of parts, in order of their dependencies."""
        state = poller_components.build_poller_state(policy, resources)
        acts = acting.build_poller_acts(policy, resources, state)
        looks_after = maintenance.build_poller_reconcilers(policy, resources, state, acts)
        return cls(
            policy=policy,
            resources=resources,
            known=state,
            acting=acts,
            maintenance=looks_after,
            program=program.build_poll_round(policy, resources, state, acts, looks_after),
        )

    def load(self) -> None:
        """Load the state that an earlier process left in the state file."""
        verdicts, clock, state = self.resources.acts.verdicts, self.resources.clock, self.known
        clock.step()  # called before load, because a clock step moves loaded times
        verdicts.hide_names()
        state.ledger.load()
        state.unheard_ends.load(clock.now())
        self.acting.late_guards.load(clock.now())
        state.usage_records.load()
        self.maintenance.recalls.load()
        self.acting.claims.load()
        for transfer in state.ledger.ended.values():
            verdicts.tidy(transfer)
        self.show_routes()

    def show_routes(self) -> None:
        """Publish the queues' routes; log removed clusters that have open transfers."""
        state, views = self.known, self.resources.views
        used = {(transfer.queue, transfer.remote) for transfer in state.ledger.all()}
        state.mail.allow(used)  # starters of open transfers still use routes of removed queues
        views.routes(frozenset(queue for queue, _ in used))
        views.keep_only(self.resources.observers)
        for cluster in sorted(state.situations.dropped()):
            _log.warning(
                "event=dropped cluster=%s why=%r",
                cluster,
                transfer_status_explanation.unconfigured_cluster_reason(cluster),
            )

    def round(self) -> None:
        """Run a single poll round."""
        with self.open_round() as a_round:
            service_cycle.run_cycle_once(a_round, _log.debug)

    @contextmanager
    def open_round(self) -> Iterator[PollRoundSteps]:
        """Store a round's changes in one transaction, then send its commands and queries."""
        self._keep_time()
        with self.known.ledger.transaction():
            yield self.program
        self.known.mail.put_away()
        self.program.upkeep.send()
        self._ask_clusters()
        self.known.usage_records.look_if_due()

    def _ask_clusters(self) -> None:
        """Query each cluster that is due; one transaction reads the job ids to watch."""
        job_ids = cache(self.watched_jobs)
        with self.known.ledger.transaction():
            for observer in self.resources.observers.values():
                observer.ask_if_due(job_ids, self.sent)

    def _keep_time(self) -> None:
        """Shift all times after a clock change, so that durations and ages stay correct."""
        if step := self.resources.clock.step():
            _log.warning("event=clock_set by_s=%+.0f", step.total_seconds())
            self.known.ledger.rewrite()
            self.known.breakers.begin_anew()
            self.maintenance.suspensions.forget()
        self.known.situations.notice_pause()

    def has_unasked(self) -> bool:
        """Return whether a configured cluster has open transfers and is not queried.

        A cluster whose last queue was removed is not queried, but records may come later.
        """
        unasked = self.policy.clusters.keys() - self.resources.observers.keys()
        return bool(self.known.ledger.clusters() & unasked)

    def away_jobs(self) -> frozenset[AwayJob]:
        """Return owner, cluster and queue of each open transfer."""
        return self.known.ledger.away_jobs()

    def watched_jobs(self) -> frozenset[int]:
        """Return the local and remote job ids that a snapshot must keep."""
        state = self.known
        watched = (*state.ledger.all(), *state.ledger.ended.values())
        remote = {transfer.remote_id for transfer in watched}
        local = {parse_transfer_name(transfer.name).job for transfer in state.ledger.all()}
        queried = state.unheard_ends.jobs() | state.breakers.jobs() | state.mail.unproved.jobs()
        late, moved = self.acting.late_guards.jobs(), self.maintenance.moves.jobs()
        return frozenset(remote | local | queried | late | moved)

    def sent(self, cluster: str) -> CampaignJobsAtCluster:
        """Return the jobs that campaigns sent to a cluster, which delay no transfer."""
        return live_campaign_jobs_at(self.resources.database, cluster)

    def shut_down(self) -> None:
        """Close the service's files, threads and child processes; safe to repeat."""
        self.resources.database.close()
        self.resources.workers.dismiss()
        self.known.usage_records.dismiss()
        for observer in self.resources.observers.values():
            observer.dismiss()
        for push in self.resources.pushes.values():
            push.stop()

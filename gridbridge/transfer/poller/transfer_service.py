"""Build, load and stop the transfer service, and run its rounds (transfer_round has a round's steps).

A killed service loses no transfer: a message leaves the spool only after the state file has the message's content,
and every act is safe to repeat.
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
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import service_cycle
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.transfer.poller import poller_components
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
    """The service of gridbridge-poller: its configuration, resources, state, acts and rounds."""

    policy: Policy
    resources: PollerResources
    known: PollerStateComponents
    acting: PollerActComponents
    maintenance: PollerReconcilers
    program: PollRoundSteps

    @classmethod
    def of(cls, policy: Policy, resources: PollerResources) -> Self:
        """Build the service from groups of components; each group is built after the groups that the group needs."""
        state = poller_components.build_poller_state(policy, resources)
        acts = poller_components.build_poller_act_components(policy, resources, state)
        looks_after = poller_components.build_poller_reconcilers(policy, resources, state, acts)
        return cls(
            policy=policy,
            resources=resources,
            known=state,
            acting=acts,
            maintenance=looks_after,
            program=poller_components.build_poll_round(policy, resources, state, acts, looks_after),
        )

    def load(self) -> None:
        """Load all transfers and their pending acts that an earlier process left in the state file."""
        verdicts, clock, state = self.resources.acts.verdicts, self.resources.clock, self.known
        clock.step()  # first, because a change of the clock moves the loaded times
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
        """Publish the remote cluster of each transfer queue; log unconfigured clusters with open transfers."""
        state, views = self.known, self.resources.views
        used = {(transfer.queue, transfer.remote) for transfer in state.ledger.all()}
        state.mail.allow(used)  # starters of open transfers may still use a removed queue
        views.routes(frozenset(queue for queue, _ in used))
        views.keep_only(self.resources.observers)
        for cluster in sorted(state.situations.dropped()):
            _log.warning(
                "event=dropped cluster=%s why=%r",
                cluster,
                transfer_status_explanation.unconfigured_cluster_reason(cluster),
            )

    def round(self) -> None:
        """Run one round of the poller."""
        with self.open_round() as a_round:
            service_cycle.run_cycle_once(a_round, _log.debug)

    @contextmanager
    def open_round(self) -> Iterator[PollRoundSteps]:
        """Store all changes of a round in one transaction; afterwards send its commands and queries."""
        self._keep_time()
        with self.known.ledger.transaction():
            yield self.program
        self.known.mail.put_away()
        self.program.upkeep.send()
        self._ask_clusters()
        self.known.usage_records.look_if_due()

    def _ask_clusters(self) -> None:
        """Query each cluster whose query is due; read the ids of jobs to watch at most once."""
        job_ids = cache(self.watched_jobs)
        with self.known.ledger.transaction():
            for observer in self.resources.observers.values():
                observer.ask_if_due(job_ids, self.sent)

    def _keep_time(self) -> None:
        """Shift all stored times after the clock was set, so that ages stay correct."""
        if step := self.resources.clock.step():
            _log.warning("event=clock_set by_s=%+.0f", step.total_seconds())
            self.known.ledger.rewrite()
            self.known.breakers.begin_anew()
            self.maintenance.suspensions.forget()
        self.known.situations.notice_pause()

    def has_unasked(self) -> bool:
        """Return whether an open transfer is at a configured cluster that the poller does not query yet.

        The poller stops querying a cluster whose last transfer queue was removed; a message about a transfer may come
        later.
        """
        unasked = self.policy.clusters.keys() - self.resources.observers.keys()
        return bool(self.known.ledger.clusters() & unasked)

    def away_jobs(self) -> frozenset[AwayJob]:
        """Return owner, remote cluster and transfer queue of each open transfer."""
        return self.known.ledger.away_jobs()

    def watched_jobs(self) -> frozenset[int]:
        """Return the ids of the local and remote jobs that the job lists must include."""
        state = self.known
        watched = (*state.ledger.all(), *state.ledger.ended.values())
        remote = {transfer.remote_id for transfer in watched}
        local = {parse_transfer_name(transfer.name).job for transfer in state.ledger.all()}
        queried = state.unheard_ends.jobs() | state.breakers.jobs() | state.mail.unproved.jobs()
        late, moved = self.acting.late_guards.jobs(), self.maintenance.moves.jobs()
        return frozenset(remote | local | queried | late | moved)

    def sent(self, cluster: str) -> CampaignJobsAtCluster:
        """Return the jobs that campaigns have sent to a cluster; transfers do not wait for these jobs."""
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

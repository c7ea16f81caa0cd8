"""Load and stop the transfer service, and run its rounds (transfer_round has a round's steps).

A message leaves the spool only after the state file has its content, so a killed service loses no transfer.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial

from gridbridge.decisions.transfer import transfer_status_explanation
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import service_cycle
from gridbridge.state import published_json
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.transfer.poller.poller_components import PollerComponents
from gridbridge.transfer.poller.transfer_round import PollerRoundSteps

_log = logging.getLogger(__name__)


class TransferService(PollerComponents):
    def load_stored_state(self) -> None:
        verdicts, clock = self.resources.acts.verdicts, self.resources.clock
        clock.detect_clock_step()  # before the loading, because a change of the clock moves the loaded times
        verdicts.hide_verdict_file_names()
        self.ledger.load_transfers()
        self.unheard_ends.load_closed_transfers(clock.now())
        self.home_task_releaser.load_guarded_transfers(clock.now())
        self.usage_records.load_accounting_file_positions()
        self.recalls.withdraw_old_recall_requests()
        self.claims.load_unsent_grants()
        for transfer in self.ledger.ended.values():
            verdicts.remove_files_of_closed_transfer(transfer)
        self.publish_routes()

    def publish_routes(self) -> None:
        """Publish the remote cluster of each transfer queue; log unconfigured clusters with open transfers."""
        used = {(transfer.queue, transfer.remote) for transfer in self.ledger.open_transfers()}
        self.mail.accept_messages_of_routes(used)  # starters of open transfers may still use removed queues
        self.resources.views.publish_routes(frozenset(queue for queue, _ in used))
        published_json.remove_unlisted_cluster_files(self.resources.observers, self.resources.views.folder)
        for cluster in sorted(self.situations.unconfigured_clusters()):
            why = transfer_status_explanation.describe_unconfigured_cluster(cluster)
            _log.warning("event=dropped cluster=%s why=%r", cluster, why)

    def run_poller_round(self) -> None:
        with self.open_round_transaction() as a_round:
            service_cycle.run_cycle_once(a_round, _log.debug)

    @contextmanager
    def open_round_transaction(self) -> Iterator[PollerRoundSteps]:
        """Store all changes of a round in one transaction, and then send the round's commands and queries."""
        self._shift_times_after_clock_change()
        with self.ledger.transaction():
            yield PollerRoundSteps(self)
        self.mail.remove_processed_messages()
        self.claims.send_grants()
        self.guards.restore_missing_guards()
        job_ids, campaign_jobs = cache(self.watched_job_ids), partial(live_campaign_jobs_at, self.resources.database)
        with self.ledger.transaction():
            for observer in self.resources.observers.values():
                observer.start_query_if_due(job_ids, campaign_jobs)
        self.usage_records.begin_accounting_readings_if_due()

    def _shift_times_after_clock_change(self) -> None:
        """Shift all stored times after the clock was set, so that ages stay correct."""
        if step := self.resources.clock.detect_clock_step():
            _log.warning("event=clock_set by_s=%+.0f", step.total_seconds())
            self.ledger.store_all_transfers()
            self.breakers.drop_unproved_evidence()
            self.suspensions.forget_suspension_mismatches()
        self.situations.notice_process_pause()

    def has_unqueried_cluster(self) -> bool:
        """Say whether a late message opened a transfer at a configured cluster that is not queried."""
        return bool(self.ledger.remote_clusters() & (self.policy.clusters.keys() - self.resources.observers.keys()))

    def watched_job_ids(self) -> frozenset[int]:
        """Return the ids of the local and remote jobs that the next job lists must show."""
        remote = {transfer.remote_id for transfer in (*self.ledger.open_transfers(), *self.ledger.ended.values())}
        local = {parse_transfer_name(transfer.name).job for transfer in self.ledger.open_transfers()}
        watchers = (self.unheard_ends, self.home_task_releaser, self.moves)
        queried = {job for watcher in watchers for job in watcher.watched_local_jobs()}
        unproved = self.breakers.local_jobs_without_proved_owner() | self.mail.unproved.job_ids_of_waiting_transfers()
        return frozenset(remote | local | queried | unproved)

    def shut_down(self) -> None:
        """Close the service's files, threads and child processes; safe to repeat."""
        self.resources.database.close()
        self.resources.workers.shut_down_threads()
        self.usage_records.shut_down_threads()
        for observer in self.resources.observers.values():
            observer.shut_down_threads()
        for push in self.resources.pushes.values():
            push.stop_receiving_job_ends()

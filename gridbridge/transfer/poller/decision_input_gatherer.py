"""Gather the inputs of decisions about transfers."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.decisions.transfer import transfer_decisions as rules
from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.watch.last_cluster_snapshots import LastClusterSnapshots
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.transfer.poller.restarted_task_lookup import RestartedTaskAnswers
from gridbridge.transfer.poller.reused_remote_job_ids import ReusedRemoteJobIdDetector
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

PAUSE_S = 10.0  # longest pause between rounds of a process that was not stopped


@dataclass(slots=True, kw_only=True)
class TransferDecisionInputGatherer:
    """Gathers inputs of decisions; stores gaps in polling, and deletions of local tasks."""

    policy: Policy
    ledger: TransferLedger
    answers: LastClusterSnapshots
    questions: RestartedTaskAnswers
    reused_ids: ReusedRemoteJobIdDetector
    spool: str
    clock: Clock
    since_s: float = field(init=False)  # begin of the polling without gaps
    looked_at_s: float = field(init=False)
    deleted_at_home: dict[str, datetime] = field(init=False)  # deletion time by transfer name

    def __post_init__(self) -> None:
        self.since_s = self.looked_at_s = self.clock.steady_s()
        self.deleted_at_home = self.clock.dated(operator.add)

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self.policy = policy

    def listen_anew(self) -> None:
        """Restart all clusters' silence times when a cluster is queried for the first time."""
        self.since_s = self.clock.steady_s()

    def notice_pause(self) -> None:
        """Restart the clusters' silence times if this process was stopped for a while."""
        now_s = self.clock.steady_s()
        if now_s - self.looked_at_s > PAUSE_S:
            self.since_s = now_s
        self.looked_at_s = now_s

    def gather(self, concerned: Iterable[Transfer]) -> TransferDecisionInputs:
        """Return the inputs of a decision about the given transfers."""
        transfers = tuple(concerned)
        asleep = (
            transfer.wake for transfer in transfers if spool.is_starter_asleep(transfer.wake, transfer.uid, self.spool)
        )
        return TransferDecisionInputs(
            home=self.policy.site.cluster,
            now=self.clock.now(),
            snapshots=dict(self.answers.good),
            asleep=frozenset(asleep),
            requeued_jobs=rules.rescheduled_jobs_with_transfer(self.ledger.all()),
            dropped=self.dropped(),
            queues=frozenset(self.policy.queues),
            with_new_starter=frozenset(self.questions.with_new_starter),
            since=self.clock.moment(self.since_s),
            deleted_at_home=self.deleted_at_home,
            reused_ids=self.reused_ids.now(),
        )

    def dropped(self) -> frozenset[str]:
        """Return the clusters of open transfers that are missing from gridbridge.toml."""
        return self.ledger.clusters() - self.policy.clusters.keys()

    def note_deleted(self, transfers: Iterable[Transfer], situation: TransferDecisionInputs) -> None:
        """Record the time since which home deletes or no longer lists transfers' tasks."""
        for transfer in transfers:
            if rules.is_home_task_deleted(transfer, situation):
                self.deleted_at_home.setdefault(transfer.name, situation.now)
            else:
                self.deleted_at_home.pop(transfer.name, None)

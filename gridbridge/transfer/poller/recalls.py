"""Recall waiting tasks by requests, which the tasks' starters carry out.

A recall request is published in the verdict's file, so a later verdict replaces the request.
"""

import logging
import math
import operator
from collections.abc import Set
from concurrent.futures import Future
from datetime import UTC, datetime

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.recall_policy import TaskRecall, does_claim_allow_recall
from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim import HOME
from gridbridge.model.transfer.transfer_round_plan import TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import OwnershipProof, Transfer, TransferKey
from gridbridge.model.transfer_message import TransferFailureCause, TransferMessage, TransferOutcome
from gridbridge.program.decision_journal import DecisionJournal
from gridbridge.program.work.backoff import BackoffBySubject
from gridbridge.program.work.thread_pools import OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.transfer.acts.local_tasks import LocalTaskActs
from gridbridge.transfer.acts.verdict_files import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller import poller_decision_journal as journalled
from gridbridge.transfer.poller.remote_job_claim_granting import RemoteJobClaimService
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

HEED_S = 60.0  # time after which a recall request that no starter carries out is withdrawn
AGAIN_S = 60.0  # first pause before the next recall of a task that could not run at home
NEVER = datetime.min.replace(tzinfo=UTC)

_log = logging.getLogger(__name__)


class WaitingTaskRecallService:
    """Recalls waiting tasks into free slots of the home cluster."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTaskActs,
        verdicts: VerdictFilesAndStarterFifos,
        workers: OwnerThreadPools,
        claims: RemoteJobClaimService,
        clock: Clock,
        journal: DecisionJournal,
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._tasks = tasks
        self._verdicts = verdicts
        self._workers = workers
        self._claims = claims
        self._clock = clock
        self._journal = journal
        self._backoff = BackoffBySubject(clock.steady_s, AGAIN_S, 16 * AGAIN_S)
        self._checking: dict[TransferKey, tuple[TaskRecall, Future[None]]] = {}
        self._out: dict[TransferKey, TaskRecall] = {}
        self._wished_at_s: dict[TransferKey, float] = {}  # time of each recall request
        self._free = (0, 0)  # number of free slots in each of the last two home snapshots
        # time of the last home snapshot by cluster
        self._free_at: dict[str, datetime] = clock.dated(operator.add)

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        self._policy = policy

    def load(self) -> None:
        """Withdraw an earlier process's recall requests, except recalls that have begun."""
        for transfer in self._ledger.all():
            if not transfer.verdict:
                self._verdicts.retract(transfer.name, transfer.uid)

    def out(self) -> Set[TransferKey]:
        """Return the keys of the transfers that are being recalled."""
        return self._out.keys()

    def decide(self, situation: TransferDecisionInputs, troubles: dict[str, str]) -> None:
        """Withdraw late recall requests, and start the recalls that are due."""
        self._count_free(situation)
        for key in tuple(self._out):
            self._follow(key, situation)
        self._take_checks(situation)
        busy = self._out.keys() | self._checking.keys()
        slots = sum(recall.slots for recall in self._out.values())
        slots += sum(recall.slots for recall, _ in self._checking.values())
        candidates = (transfer for transfer in self._ledger.all() if transfer.key not in busy and self.may(transfer))
        free = min(self._free) - slots
        self._begin(tuple(candidates), situation, troubles, free)

    def _begin(
        self, candidates: tuple[Transfer, ...], situation: TransferDecisionInputs, troubles: dict[str, str], free: int
    ) -> None:
        """Start to check the tasks that are due for recall, and journal the decision."""
        queues = self._policy.queues
        due = tuple(recall_policy.plan_recalls_into_home_slots(candidates, situation, queues, troubles, free))
        begun = [recall for recall in due if self._backoff.may_try(recall.transfer.key)]
        for recall in begun:
            check = self._workers.do(recall.transfer.owner, self._tasks.check, recall.transfer)
            self._checking[recall.transfer.key] = recall, check
        if begun:
            considered = recall_policy.recalls_if_all_slots_were_free(candidates, situation, queues, troubles)
            entry = journalled.recall_journal_entry(considered, due, situation, queues, troubles, free)
            self._journal.keep(entry)

    def _count_free(self, situation: TransferDecisionInputs) -> None:
        home = situation.snapshots.get(situation.home)
        if home and home.taken_at > self._free_at.get(home.cluster, NEVER):
            self._free = self._free[1], home.free_slots
            self._free_at[home.cluster] = home.taken_at

    def bring(self, transfer: Transfer, why: str) -> bool:
        """Recall a task for the given reason; return whether its recall is in progress."""
        if transfer.key not in self._out and transfer.key not in self._checking:
            self._bring(TaskRecall(transfer=transfer, slots=0, why=why), transfer)
        return transfer.key in self._out

    def may(self, transfer: Transfer) -> bool:
        """Return whether a task's owner is confirmed and its queue allows one more recall.

        A job without a claim needs a batch system that shows whether the job has started.
        """
        queue = self._policy.queues.get(transfer.queue)
        cluster = self._policy.clusters.get(transfer.remote)
        if not queue or not queue.recall_wait_s or not cluster or transfer.listed != OwnershipProof.YES:
            return False
        tells = ADAPTERS[cluster.kind].recalls is not None
        waits = transfer.remote_state.is_waiting and tells and not transfer.claim
        if not waits and not does_claim_allow_recall(transfer):
            return False
        before = self._ledger.attempts(transfer.name, transfer.uid)
        return sum(attempt.cause == TransferFailureCause.RECALLED for attempt in before) < queue.recall_limit

    def _take_checks(self, situation: TransferDecisionInputs) -> None:
        """Recall the checked tasks that a queue of the home cluster can run."""
        for key in [key for key, (_, check) in self._checking.items() if check.done()]:
            recall, check = self._checking.pop(key)
            transfer = self._ledger.open.get(key)
            if error := check.exception():
                _log.info("event=no_recall name=%s why=%r", key[0], str(error))
            elif transfer and not transfer.verdict and not _has_started(transfer, situation):
                self._bring(recall, transfer)

    def _bring(self, recall: TaskRecall, transfer: Transfer) -> None:
        """Recall a task by taking its claim, or by a request to the task's starter."""
        if not transfer.claim:
            self._publish_request(recall, transfer)
        elif self._claims.recall(transfer, recall.why):
            self._out[transfer.key] = recall

    def _publish_request(self, recall: TaskRecall, transfer: Transfer) -> None:
        self._out[transfer.key] = recall
        self._wished_at_s[transfer.key] = self._clock.steady_s()
        self._ledger.note(transfer, f"recall: {recall.why}")
        why = recall.why
        message = TransferMessage(
            transfer=transfer.name, outcome=TransferOutcome.RECALL, cause=TransferFailureCause.RECALLED, reason=why
        )
        self._verdicts.publish(TransferAction(act=TransferActKind.PUBLISH, transfer=transfer, why=why, verdict=message))

    def _follow(self, key: TransferKey, situation: TransferDecisionInputs) -> None:
        """Forget a finished recall; withdraw a recall that is late or not carried out."""
        transfer = self._ledger.open.get(key)
        if transfer is None or (transfer.verdict and transfer.claimed != HOME):
            self._forget(key)
        elif not transfer.verdict and _has_started(transfer, situation):
            self._take_back(transfer, f"recall: too late, running at {transfer.remote}")
        elif not transfer.verdict and self._is_unheeded(key):
            self._take_back(transfer, "recall: withdrawn, its starter did not act")

    def _is_unheeded(self, key: TransferKey) -> bool:
        return self._clock.steady_s() - self._wished_at_s.get(key, math.inf) > HEED_S

    def _take_back(self, transfer: Transfer, why: str) -> None:
        self._forget(transfer.key)
        self._verdicts.retract(transfer.name, transfer.uid)
        self._ledger.note(transfer, why)

    def _forget(self, key: TransferKey) -> None:
        self._out.pop(key, None)
        self._wished_at_s.pop(key, None)


def _has_started(transfer: Transfer, situation: TransferDecisionInputs) -> bool:
    row = situation.row(transfer)
    return row is not None and row.state.is_running

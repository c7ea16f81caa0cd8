"""Recalls waiting tasks: publishes a wish, which the task's starter carries out if it can.

The wish is published in the place of the verdict, so a later verdict replaces it.
"""

import logging
import math
import operator
from collections.abc import Set
from concurrent.futures import Future
from datetime import UTC, datetime

from gridbridge.batch.adapters import ADAPTERS
from gridbridge.decisions.transfer import recall_policy
from gridbridge.decisions.transfer.recall_policy import Recall, may_be_had
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.message import FailureCause, StarterMessage, TransferOutcome
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim import HOME
from gridbridge.model.transfer.transfer_plan import TransferAct, TransferAction
from gridbridge.model.transfer.transfer_row import Key, OwnershipProof, Transfer
from gridbridge.program.journal import DecisionJournal
from gridbridge.program.work.backoff import Backoff
from gridbridge.program.work.workers import OwnerThreads
from gridbridge.shell.clock import Clock
from gridbridge.transfer.acts.local_tasks import LocalTasks
from gridbridge.transfer.acts.verdict_files import VerdictFiles
from gridbridge.transfer.poller import recall_journal as journalled
from gridbridge.transfer.poller.claims import Claims
from gridbridge.transfer.poller.transfer_ledger import TransferLedger

HEED_S = 60.0  # the time that a starter has for a wish; then the wish is taken back
AGAIN_S = 60.0  # before a task that could not run here is considered again; it doubles
NEVER = datetime.min.replace(tzinfo=UTC)

_log = logging.getLogger(__name__)


class RecallService:
    """The recalls that are under way, and the free slots at home."""

    def __init__(
        self,
        policy: Policy,
        ledger: TransferLedger,
        tasks: LocalTasks,
        verdicts: VerdictFiles,
        workers: OwnerThreads,
        claims: Claims,
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
        self._backoff = Backoff(clock.steady_s, AGAIN_S, 16 * AGAIN_S)
        self._checking: dict[Key, tuple[Recall, Future[None]]] = {}
        self._out: dict[Key, Recall] = {}
        self._wished_at_s: dict[Key, float] = {}  # transfers whose starters have a wish
        self._free = (0, 0)  # in the last two answers of home
        self._free_at: dict[str, datetime] = clock.dated(operator.add)  # of home alone

    def follow(self, policy: Policy) -> None:
        """Go on under another configuration."""
        self._policy = policy

    def load(self) -> None:
        """Take back an earlier process's wishes and decide anew; recalls that began go on."""
        for one in self._ledger.all():
            if not one.verdict:
                self._verdicts.retract(one.name, one.uid)

    def out(self) -> Set[Key]:
        """Return the transfers that are being recalled."""
        return self._out.keys()

    def decide(self, situation: TransferSituation, troubles: dict[str, str]) -> None:
        """Take back wishes that came too late, and publish new ones."""
        self._count_free(situation)
        for each in tuple(self._out):
            self._follow(each, situation)
        self._take_checks(situation)
        busy = self._out.keys() | self._checking.keys()
        asked = sum(one.slots for one in self._out.values())
        asked += sum(one.slots for one, _ in self._checking.values())
        others = (one for one in self._ledger.all() if one.key not in busy and self.may(one))
        free = min(self._free) - asked
        self._begin(tuple(others), situation, troubles, free)

    def _begin(
        self,
        others: tuple[Transfer, ...],
        situation: TransferSituation,
        troubles: dict[str, str],
        free: int,
    ) -> None:
        """Check the tasks that are due, and keep the decision."""
        queues = self._policy.queues
        due = tuple(recall_policy.due(others, situation, queues, troubles, free))
        begun = [one for one in due if self._backoff.may_try(one.transfer.key)]
        for one in begun:
            check = self._workers.do(one.transfer.owner, self._tasks.check, one.transfer)
            self._checking[one.transfer.key] = one, check
        if begun:
            wanted = recall_policy.wanted(others, situation, queues, troubles)
            kept = journalled.entry(wanted, due, situation, queues, troubles, free)
            self._journal.keep(kept)

    def _count_free(self, situation: TransferSituation) -> None:
        home = situation.snapshots.get(situation.home)
        if home and home.taken_at > self._free_at.get(home.cluster, NEVER):
            self._free = self._free[1], home.free_slots
            self._free_at[home.cluster] = home.taken_at

    def bring(self, one: Transfer, why: str) -> bool:
        """Have a task come home for another reason; say whether that is under way."""
        if one.key not in self._out and one.key not in self._checking:
            self._bring(Recall(transfer=one, slots=0, why=why), one)
        return one.key in self._out

    def may(self, one: Transfer) -> bool:
        """Say whether its queue allows one more recall, and home's list has proved it.

        Without a claim its cluster has to be able to say that a job had not started.
        """
        queue = self._policy.queues.get(one.queue)
        cluster = self._policy.clusters.get(one.remote)
        if not queue or not queue.recall_wait_s or not cluster or one.listed != OwnershipProof.YES:
            return False
        tells = ADAPTERS[cluster.kind].recalls is not None
        waits = one.remote_state.is_waiting and tells and not one.claim
        if not waits and not may_be_had(one):
            return False
        before = self._ledger.attempts(one.name, one.uid)
        return sum(each.cause == FailureCause.RECALLED for each in before) < queue.recall_limit

    def _take_checks(self, situation: TransferSituation) -> None:
        """Publish wishes for the tasks that some queue at home could run."""
        for each in [each for each, (_, check) in self._checking.items() if check.done()]:
            wanted, check = self._checking.pop(each)
            one = self._ledger.open.get(each)
            if error := check.exception():
                _log.info("event=no_recall name=%s why=%r", each[0], str(error))
            elif one and not one.verdict and not _has_started(one, situation):
                self._bring(wanted, one)

    def _bring(self, wanted: Recall, one: Transfer) -> None:
        """Take its claim for home, or publish a wish; count its slots as taken."""
        if not one.claim:
            self._wish(wanted, one)
        elif self._claims.recall(one, wanted.why):
            self._out[one.key] = wanted

    def _wish(self, wanted: Recall, one: Transfer) -> None:
        self._out[one.key] = wanted
        self._wished_at_s[one.key] = self._clock.steady_s()
        self._ledger.note(one, f"recall: {wanted.why}")
        why = wanted.why
        wish = StarterMessage(
            transfer=one.name,
            outcome=TransferOutcome.RECALL,
            cause=FailureCause.RECALLED,
            reason=why,
        )
        self._verdicts.publish(
            TransferAction(act=TransferAct.PUBLISH, transfer=one, why=why, verdict=wish)
        )

    def _follow(self, each: Key, situation: TransferSituation) -> None:
        """Forget a recall that is done; take back one whose job has started."""
        one = self._ledger.open.get(each)
        if one is None or (one.verdict and one.claimed != HOME):
            self._forget(each)
        elif not one.verdict and _has_started(one, situation):
            self._take_back(one, f"recall: too late, it runs at {one.remote}")
        elif not one.verdict and self._is_unheeded(each):
            self._take_back(one, "recall: taken back, its starter did not do it")

    def _is_unheeded(self, each: Key) -> bool:
        return self._clock.steady_s() - self._wished_at_s.get(each, math.inf) > HEED_S

    def _take_back(self, one: Transfer, why: str) -> None:
        self._forget(one.key)
        self._verdicts.retract(one.name, one.uid)
        self._ledger.note(one, why)

    def _forget(self, each: Key) -> None:
        self._out.pop(each, None)
        self._wished_at_s.pop(each, None)


def _has_started(one: Transfer, situation: TransferSituation) -> bool:
    row = situation.row(one)
    return row is not None and row.state.is_running

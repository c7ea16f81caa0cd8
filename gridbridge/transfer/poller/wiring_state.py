"""Build the parts of the service that hold the state of transfers and clusters."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.program.journal import DecisionJournal
from gridbridge.program.watch.last_answers import LastClusterSnapshots
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.history_publication import JobHistoryPublisher
from gridbridge.transfer.poller.inbox_reader import InboxReader
from gridbridge.transfer.poller.plan_journal import PlanJournal
from gridbridge.transfer.poller.resources import PollerResources
from gridbridge.transfer.poller.reused_ids import ReusedIdDetector
from gridbridge.transfer.poller.round.situations import TransferSituations
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.undelivered_ends import UndeliveredEndTracker
from gridbridge.transfer.poller.usage_records import RemoteUsageService


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStateParts:
    """The parts that hold state; the state file has all data that must survive."""

    job_history: JobHistoryPublisher
    breakers: ClusterBreakers
    ledger: TransferLedger
    plan_journal: PlanJournal
    journal: DecisionJournal
    unheard_ends: UndeliveredEndTracker
    mail: InboxReader
    answers: LastClusterSnapshots
    reused_ids: ReusedIdDetector
    usage_records: RemoteUsageService
    situations: TransferSituations


def build_state_parts(policy: Policy, at: PollerResources) -> TransferStateParts:
    """Build the parts that hold state from a configuration and resources."""
    job_history = JobHistoryPublisher(policy.site.cluster, at.database, at.views)
    breakers = ClusterBreakers(policy.breaker, at.views, at.clock)
    ledger = TransferLedger(at.database, job_history, breakers, at.clock)
    journal = DecisionJournal(at.database)
    unheard_ends = UndeliveredEndTracker(at.database, at.clock)
    mail = InboxReader(policy, at.inbox, ledger, at.acts.verdicts, unheard_ends, at.clock, journal)
    answers = LastClusterSnapshots(at.observers, at.database, at.views.answer, at.clock)
    reused_ids = ReusedIdDetector(ledger, at.acts.remote, at.workers, at.clock.steady_s)
    return TransferStateParts(
        job_history=job_history,
        breakers=breakers,
        ledger=ledger,
        plan_journal=PlanJournal(),
        journal=journal,
        unheard_ends=unheard_ends,
        mail=mail,
        answers=answers,
        reused_ids=reused_ids,
        usage_records=RemoteUsageService(
            policy=policy, database=at.database, views=at.views, clock=at.clock
        ),
        situations=TransferSituations(
            policy=policy,
            ledger=ledger,
            answers=answers,
            questions=mail.questions,
            reused_ids=reused_ids,
            spool=at.spool,
            clock=at.clock,
        ),
    )

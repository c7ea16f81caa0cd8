"""Tell the starter of a restarted task the transfer that the task belongs to."""

from gridbridge.decisions.transfer.starter_message_acceptance import (
    has_home_reused_job_number,
    invalid_message_value,
    is_new_starter_of_dying_task,
    transfer_for_restarted_task,
)
from gridbridge.decisions.transfer.transfer_decisions import NUMBER_REUSED
from gridbridge.decisions.transfer.undelivered_ends_and_guards import ended_transfer_of_requeued_job
from gridbridge.model.transfer.transfer_round_plan import RejectedStarterMessage
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.model.transfer_message import DesiredLocalJobState, TransferMessage
from gridbridge.shell.clock import Clock
from gridbridge.state.spool_inbox import SpoolInbox
from gridbridge.state.spool_reader import MessageWithAuthorUid
from gridbridge.transfer.acts.verdict_files import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.undelivered_task_ends import UndeliveredTaskEndTracker


class RestartedTaskAnswers:
    """Answers to starters of restarted tasks, taken from the transfer ledger."""

    def __init__(
        self,
        ledger: TransferLedger,
        inbox: SpoolInbox,
        verdicts: VerdictFilesAndStarterFifos,
        unheard_ends: UndeliveredTaskEndTracker,
        clock: Clock,
    ) -> None:
        # keys of transfers that are being deleted and whose tasks have new starters
        self.with_new_starter: set[TransferKey] = set()
        self._ledger = ledger
        self._inbox = inbox
        self._verdicts = verdicts
        self._unheard_ends = unheard_ends
        self._clock = clock

    def answer(self, spooled: MessageWithAuthorUid) -> RejectedStarterMessage | None:
        """Tell a restarted task's starter the task's transfer; refuse an invalid query."""
        message = spooled.message
        if invalid_message_value(message) or not message.wake:
            return RejectedStarterMessage(what="question", reason="invalid question or no FIFO")
        attempts = tuple(self._disowned(transfer, message) for transfer in self._attempts(spooled))
        self.with_new_starter |= {
            transfer.key for transfer in attempts if is_new_starter_of_dying_task(transfer, message)
        }
        asleep = [transfer.wake for transfer in attempts if self._verdicts.is_asleep(transfer)]
        if reply := transfer_for_restarted_task(attempts, message, asleep):
            replied = self._ledger.find((reply.transfer, spooled.uid))
            stage = self._inbox.stage_of(replied.record) if replied else ""
            self._verdicts.reply(message.wake, spooled.uid, reply.but(stage=stage))
        return None

    def _attempts(self, spooled: MessageWithAuthorUid) -> tuple[Transfer, ...]:
        """Return a task's transfers; reopen a transfer whose end home may have missed."""
        message, uid = spooled.message, spooled.uid
        attempts = self._ledger.attempts(message.transfer, uid)
        ended = ended_transfer_of_requeued_job(attempts, message)
        if not ended or not self._unheard_ends.awaits(ended):
            return attempts
        self._ledger.reopen(ended)
        return self._ledger.attempts(message.transfer, uid)

    def _disowned(self, transfer: Transfer, message: TransferMessage) -> Transfer:
        """Begin to delete a transfer whose job number now belongs to a new job at home."""
        is_live = (
            not transfer.is_over and transfer.desired != DesiredLocalJobState.DEAD and transfer.wake != message.wake
        )
        if not is_live or not has_home_reused_job_number(message, self._inbox.submitted_of(transfer.record)):
            return transfer
        transfer = transfer.but(desired=DesiredLocalJobState.DEAD, updated_at=self._clock.now(), reason=NUMBER_REUSED)
        self._ledger.keep(transfer)
        self._ledger.note(transfer, NUMBER_REUSED)
        return transfer

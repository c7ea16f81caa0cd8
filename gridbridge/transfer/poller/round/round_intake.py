"""Take a round's input: messages, answers, pushed job ends, and results of acts."""

from dataclasses import dataclass

from gridbridge.model.transfer.transfer_row import TransferKey
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.watch.end_listener import OarJobEndListener
from gridbridge.program.watch.last_answers import LastClusterSnapshots
from gridbridge.program.watch.pushed_ends import QeventJobEndReceiver
from gridbridge.transfer.poller.inbox_reader import InboxReader
from gridbridge.transfer.poller.round.answer_handlers import AnswerHandlers
from gridbridge.transfer.poller.round.round_actions import RoundActions
from gridbridge.transfer.poller.usage_records import RemoteUsageService


@dataclass(slots=True, kw_only=True)
class RoundIntake:
    """The parts that deliver a round's input."""

    answers: LastClusterSnapshots
    mail: InboxReader
    usage_records: RemoteUsageService
    pushes: dict[str, QeventJobEndReceiver | OarJobEndListener]
    actions: RoundActions
    answer_handlers: AnswerHandlers

    def take(self) -> tuple[tuple[ClusterQueryResult, ...], list[TransferKey]]:
        """Return the new cluster answers, and the transfers that other input changed."""
        came = self.answers.take()  # first: messages must not be older than answers
        changed = [*self._take_messages(at_once=bool(came)), *self.actions.take_results()]
        self.usage_records.take()
        self._take_pushes()
        self.answer_handlers.take(came)
        return came, changed

    def _take_messages(self, at_once: bool) -> list[TransferKey]:
        """Process the spool's messages; return the transfers that changed."""
        changed = self.mail.take(at_once)
        for transfer in changed:
            if transfer.is_over:
                self.actions.forget(transfer)
        return [transfer.key for transfer in changed]

    def _take_pushes(self) -> None:
        """Look up the job ends that clusters have pushed."""
        for cluster, push in self.pushes.items():
            if ids := push.ended():
                self.actions.look_up(cluster, ids)

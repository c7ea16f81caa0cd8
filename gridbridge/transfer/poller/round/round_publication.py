"""Publish load values, histories and transfers after a round; remove old data."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.program.watch.cluster_observer import ClusterObserver
from gridbridge.program.watch.disk_space_watch import RoomWatch
from gridbridge.program.watch.last_answers import LastClusterAnswers
from gridbridge.program.watch.tmpdirs import Tmpdirs
from gridbridge.transfer.poller.breakers import Breakers
from gridbridge.transfer.poller.history_publication import JobHistory
from gridbridge.transfer.poller.published_views import PublishedViews
from gridbridge.transfer.poller.round.sweeper import Sweeper
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(slots=True, kw_only=True)
class RoundPublication:
    """The parts that publish a round's results."""

    ledger: TransferLedger
    answers: LastClusterAnswers
    observers: Mapping[str, ClusterObserver]
    breakers: Breakers
    room: RoomWatch
    tmpdirs: Tmpdirs
    job_history: JobHistory
    views: PublishedViews
    sweeper: Sweeper

    def publish(self, is_news: bool) -> None:
        """Publish load values and histories, and the transfers if there is news."""
        closed = self.breakers.closed(self.ledger.all()) | self.answers.silent()
        self.views.load(self.answers.good, self.observers, closed, self.room.lacks())
        self.job_history.publish()
        if is_news:
            self.views.transfers(self.ledger.all(), self.answers.good)
        self.sweeper.sweep_if_due()

"""The end of a round: publishes what people and programs may see, and removes what is old."""

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
    """All parts that publish something."""

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
        """Publish what people and programs may see."""
        closed = self.breakers.closed(self.ledger.all()) | self.answers.silent()
        self.views.load(self.answers.good, self.observers, closed, self.room.lacks())
        self.job_history.publish()
        if is_news:
            self.views.transfers(self.ledger.all(), self.answers.good)
        self.sweeper.sweep_if_due()

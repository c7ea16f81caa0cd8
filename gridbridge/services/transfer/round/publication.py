"""The end of a round: publishes what people and programs may see, and removes what is old."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.services.transfer.breakers import Breakers
from gridbridge.services.transfer.ledger import TransferLedger
from gridbridge.services.transfer.published.history import JobHistory
from gridbridge.services.transfer.published.views import PublishedViews
from gridbridge.services.transfer.round.sweeper import Sweeper
from gridbridge.services.watch.answers import LastClusterAnswers
from gridbridge.services.watch.observer import ClusterObserver
from gridbridge.services.watch.room import RoomWatch
from gridbridge.services.watch.tmpdirs import Tmpdirs


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

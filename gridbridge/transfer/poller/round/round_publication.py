"""Publish load values, histories and transfers after a round; remove old data."""

from collections.abc import Mapping
from dataclasses import dataclass

from gridbridge.program.watch.cluster_observer import ClusterObserver
from gridbridge.program.watch.disk_space_watch import DiskSpaceWatch
from gridbridge.program.watch.last_answers import LastClusterSnapshots
from gridbridge.program.watch.tmpdirs import TmpdirFolderQuery
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.history_publication import JobHistoryPublisher
from gridbridge.transfer.poller.published_views import PublishedViews
from gridbridge.transfer.poller.round.sweeper import OldDataSweeper
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(slots=True, kw_only=True)
class RoundPublication:
    """The parts that publish a round's results."""

    ledger: TransferLedger
    answers: LastClusterSnapshots
    observers: Mapping[str, ClusterObserver]
    breakers: ClusterBreakers
    room: DiskSpaceWatch
    tmpdirs: TmpdirFolderQuery
    job_history: JobHistoryPublisher
    views: PublishedViews
    sweeper: OldDataSweeper

    def publish(self, is_news: bool) -> None:
        """Publish load values and histories, and the transfers if there is news."""
        closed = self.breakers.closed(self.ledger.all()) | self.answers.silent()
        self.views.load(self.answers.good, self.observers, closed, self.room.lacks())
        self.job_history.publish()
        if is_news:
            self.views.transfers(self.ledger.all(), self.answers.good)
        self.sweeper.sweep_if_due()

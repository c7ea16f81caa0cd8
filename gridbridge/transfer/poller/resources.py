"""The transfer service's resources: files, cluster observers, threads and clock."""

from dataclasses import dataclass, field

from gridbridge.model.places import SPOOL
from gridbridge.program.watch.cluster_observer import ClusterObserver
from gridbridge.program.watch.end_listener import EndListener
from gridbridge.program.watch.pushed_ends import PushedEnds
from gridbridge.program.work.workers import OwnerThreads
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.state.inbox import Inbox
from gridbridge.transfer.acts.transfer_acts import TransferActs
from gridbridge.transfer.poller.published_views import PublishedViews


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The files, observers, threads and clock that the transfer service works with."""

    database: StateFile
    inbox: Inbox
    acts: TransferActs
    views: PublishedViews
    observers: dict[str, ClusterObserver]
    pushes: dict[str, PushedEnds | EndListener] = field(default_factory=dict)
    workers: OwnerThreads = field(default_factory=OwnerThreads)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)

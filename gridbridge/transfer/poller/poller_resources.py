"""The transfer service's resources: files, cluster observers, threads and clock."""

from dataclasses import dataclass, field

from gridbridge.model.fixed_paths import SPOOL
from gridbridge.program.watch.cluster_observer import ClusterObserver
from gridbridge.program.watch.pushed_job_ends import OarJobEndListener, QeventJobEndReceiver
from gridbridge.program.work.thread_pools import OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.state.spool_inbox import SpoolInbox
from gridbridge.transfer.acts.remote_jobs import TransferActRunner
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerResources:
    """The files, observers, threads and clock that the transfer service works with."""

    database: StateFile
    inbox: SpoolInbox
    acts: TransferActRunner
    views: TransferStatePublisher
    observers: dict[str, ClusterObserver]
    pushes: dict[str, QeventJobEndReceiver | OarJobEndListener] = field(default_factory=dict)
    workers: OwnerThreadPools = field(default_factory=OwnerThreadPools)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)

"""What the service works with: its files, the clusters, threads, and the clock."""

from dataclasses import dataclass, field

from gridbridge.apply.transfer.acts import Acts
from gridbridge.model.places import SPOOL
from gridbridge.services.transfer.published.views import Views
from gridbridge.services.watch.listener import Listener
from gridbridge.services.watch.observer import Observer
from gridbridge.services.watch.push import Push
from gridbridge.services.work.workers import Workers
from gridbridge.shell.clock import Clock
from gridbridge.state.database import Database
from gridbridge.state.inbox import Inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Everything that is there before the service; clusters come and go."""

    database: Database
    inbox: Inbox
    acts: Acts
    views: Views
    observers: dict[str, Observer]
    pushes: dict[str, Push | Listener] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)

"""gridbridge-poller: the one process that asks the clusters, however many jobs were sent.

Started by systemd, or by the load sensor when none runs; a lock keeps it the only one.
"""

import logging
import os
import signal
import sys
import threading
import time

from gridbridge import config
from gridbridge.apply.routes import away, keep_connections
from gridbridge.apply.transfer import Hands
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.cluster import Push as PushKind
from gridbridge.model.places import CONFIG, HOME, LOCK, SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.route import Cell, OarServer
from gridbridge.services.listener import Listener
from gridbridge.services.observer import Observer
from gridbridge.services.push import Push
from gridbridge.services.transfers import TransferService
from gridbridge.services.views import Views
from gridbridge.shell import lock
from gridbridge.state.database import Database
from gridbridge.state.inbox import Inbox

TROUBLE_PAUSE_S = 5.0  # after a round that failed as a whole: a full disk is not mended sooner

_log = logging.getLogger(__name__)


def main() -> None:
    """Run until SIGTERM; exit status 0, 1 when another poller runs, 2 for a wrong set-up."""
    try:
        policy = config.load(CONFIG)
        _start_log(policy)
        if not lock.take(LOCK):
            sys.exit("gridbridge-poller: another one runs")
        run(policy, _stop_on_signals())
    except GridbridgeError as error:
        print(f"gridbridge-poller: {error}", file=sys.stderr)  # noqa: T201 - the log may not exist
        sys.exit(2)


def run(policy: Policy, stop: threading.Event) -> None:
    """Do rounds until told to stop."""
    keep_connections(policy)
    service = build(policy)
    _log.info("event=start cluster=%s queues=%s", policy.site.cluster, ",".join(policy.queues))
    while not stop.is_set():
        try:
            service.round()
        except StateError as error:
            service = _again(policy, service, error, stop)
        stop.wait(policy.poller.spool_interval_s)
    _log.info("event=stop")
    os._exit(0)  # a thread may wait for a cluster that does not answer; nothing of it is ours


def build(policy: Policy) -> TransferService:
    """Put the service together and take up what an earlier one left."""
    database = Database.open(policy.site.state)
    clusters = _clusters(policy, database)
    service = TransferService(
        policy=policy,
        database=database,
        inbox=Inbox(SPOOL, policy.poller.spool_files_per_uid),
        hands=Hands(policy),
        views=Views(policy),
        observers={
            name: Observer(
                name,
                away(policy, name),
                policy.poller,
                time.monotonic,
                users=policy.clusters[name].users,
                transfer_queues=tuple(policy.queues) if name == policy.site.cluster else (),
            )
            for name in clusters
        },
        pushes={
            name: _push(policy, name)
            for name, cluster in policy.clusters.items()
            if name in clusters and cluster.push is not PushKind.NONE
        },
    )
    try:
        service.load()
    except StateError:
        service.shut_down()
        raise
    return service


def _push(policy: Policy, name: str) -> Push | Listener:
    """Return what takes the ends that a cluster pushes."""
    cluster, far = policy.clusters[name], away(policy, name)
    if isinstance(far, OarServer):
        return Listener(name, far, cluster.push_limit_per_s, time.monotonic)
    assert isinstance(far, Cell)  # no other kind pushes
    return Push(far, cluster, f"{HOME}/push/{name}", time.monotonic)


def _clusters(policy: Policy, database: Database) -> frozenset[str]:
    """Return the clusters to ask: where queues lead, and where open transfers still are."""
    used = {policy.site.cluster, *policy.remotes}
    try:
        left = (*database.open_transfers(), *database.ended_transfers())
    except StateError:
        database.close()
        raise
    return frozenset(policy.clusters) & used.union(one.remote for one in left)


def _again(
    policy: Policy, service: TransferService, trouble: StateError, stop: threading.Event
) -> TransferService:
    """Begin anew from the state file: what a failed round took from the spool is read again.

    The log may lie on the same full disk, so the trouble is told once more when it is over.
    """
    while not stop.is_set():
        service.shut_down()
        _log.error("event=trouble why=%r", str(trouble))
        stop.wait(TROUBLE_PAUSE_S)
        try:
            service = build(policy)
            service.round()
            _log.info("event=well_again after=%r", str(trouble))
            break
        except StateError as error:
            trouble = error
    return service


def _start_log(policy: Policy) -> None:
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        level=policy.site.log_level.upper(),
        format="%(asctime)sZ level=%(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop

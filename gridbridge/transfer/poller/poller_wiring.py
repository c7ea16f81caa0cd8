"""Build the transfer service from gridbridge.toml, and apply changes of the file.

Unchanged clusters keep their polling and their last snapshot, so the queues to these clusters stay
open. The service keeps all its transfers and running acts.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_routes import configured_cluster_address, keep_ssh_connections_open
from gridbridge.errors import GridbridgeError
from gridbridge.model.cluster import ClusterSection, JobEndPushKind
from gridbridge.model.fixed_paths import HOME, SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.configuration import ReloadableConfiguration
from gridbridge.program.watch.cluster_observer import ClusterObserver
from gridbridge.program.watch.pushed_job_ends import OarJobEndListener, QeventJobEndReceiver
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.state.spool_inbox import SpoolInbox
from gridbridge.transfer.acts.remote_jobs import TransferActRunner
from gridbridge.transfer.poller.poller_resources import PollerResources
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.store.transfer_rows import TransferRows

_USUAL = ClusterSection()
UNASKED = {  # cluster keys that do not affect a status query
    key: getattr(_USUAL, key)
    for key in (
        *("shell", "spool_shared", "remote_spool_dir", "stage_dir", "accounting"),
        *("push", "push_limit_per_s", "claim", "claim_wait_s"),
    )
}


class ReloadablePollerComponent(Protocol):
    """A part of the service that keeps its state under a changed configuration."""

    def follow(self, policy: Policy) -> None:
        """Apply a changed configuration."""
        ...


def build_transfer_service(configuration: ReloadableConfiguration, clock: Clock) -> TransferService:
    """Build the transfer service, and load the state that an earlier service left."""
    policy = configuration.policy
    keep_ssh_connections_open(policy)
    database = StateFile.open(policy.site.state)
    clusters = _clusters(policy, _unfinished(database))
    resources = PollerResources(
        database=database,
        inbox=SpoolInbox(SPOOL, policy.poller.spool_files_per_uid, clock),
        acts=TransferActRunner(policy),
        views=TransferStatePublisher(policy, clock, configuration=configuration.shown()),
        observers={name: _observer(policy, name, clock) for name in clusters},
        clock=clock,
    )
    service = TransferService.of(policy, resources)
    try:
        for name in filter(partial(_pushes, policy), clusters):
            resources.pushes[name] = _push(policy, name, clock)
        service.load()
    except GridbridgeError:
        service.shut_down()
        raise
    return service


def reload_transfer_service(service: TransferService, policy: Policy) -> None:
    """Apply a changed configuration to the service; StateError if publishing fails."""
    keep_ssh_connections_open(policy)
    ledger, observers = service.known.ledger, service.resources.observers
    clusters = _clusters(policy, (*ledger.all(), *ledger.ended.values()))
    same = frozenset(name for name in clusters & observers.keys() if _is_asked_alike(service.policy, policy, name))
    _follow_observers(service, policy, clusters, same)
    _follow_pushes(service, policy, clusters, same)
    if any(transfer.remote in clusters - same for transfer in ledger.all()):
        service.known.situations.listen_anew()
    service.policy = policy
    service.resources.inbox.limit_per_uid = policy.poller.spool_files_per_uid
    for part in _parts(service):
        part.follow(policy)
    service.show_routes()


def _parts(service: TransferService) -> tuple[ReloadablePollerComponent, ...]:
    """Return the service's parts that need the changed configuration."""
    at, state, program = service.resources, service.known, service.program
    return (
        *(at.acts, at.views),
        *(state.breakers, state.mail, state.usage_records, state.situations),
        *(service.acting.actions, service.acting.claims),
        *(service.maintenance.guards, service.maintenance.recalls),
        *(service.maintenance.moves, service.maintenance.suspensions),
        *(program, program.intake.answer_handlers, program.upkeep),
        *(program.publication.sweeper, program.publication.tmpdirs),
    )


def _follow_observers(service: TransferService, policy: Policy, clusters: frozenset[str], same: frozenset[str]) -> None:
    """Keep unchanged clusters' observers; replace others and drop their snapshots."""
    observers = service.resources.observers
    for name in observers.keys() - same:
        observers.pop(name).dismiss()
        service.known.answers.forget(name)
    for name in same:
        observers[name].follow(configured_cluster_address(policy, name), policy.poller, _own_queues(policy, name))
    for name in clusters - same:
        observers[name] = _observer(policy, name, service.resources.clock)


def _follow_pushes(service: TransferService, policy: Policy, clusters: frozenset[str], same: frozenset[str]) -> None:
    """Keep unchanged clusters' push listeners; stop or start all other listeners."""
    pushes, clock = service.resources.pushes, service.resources.clock
    alike = frozenset(name for name in same if _push_of(service.policy, name) == _push_of(policy, name))
    for name in pushes.keys() - alike:
        pushes.pop(name).stop()
    for name in clusters - alike:
        if _pushes(policy, name):
            pushes[name] = _push(policy, name, clock)


def _is_asked_alike(before: Policy, after: Policy, name: str) -> bool:
    """Return whether two configurations query a cluster's status in the same way."""
    was, is_now = (replace(policy.clusters[name], **UNASKED) for policy in (before, after))
    return was == is_now


def _push_of(policy: Policy, name: str) -> tuple[JobEndPushKind, float]:
    cluster = policy.clusters[name]
    return cluster.push, cluster.push_limit_per_s


def _pushes(policy: Policy, name: str) -> bool:
    return policy.clusters[name].push is not JobEndPushKind.NONE


def _observer(policy: Policy, name: str, clock: Clock) -> ClusterObserver:
    return ClusterObserver(
        name,
        configured_cluster_address(policy, name),
        policy.poller,
        clock,
        users=policy.clusters[name].users,
        transfer_queues=_own_queues(policy, name),
    )


def _own_queues(policy: Policy, name: str) -> tuple[str, ...]:
    """Return the home cluster's transfer queues, whose slots are at remote clusters."""
    return tuple(policy.queues) if name == policy.site.cluster else ()


def _push(policy: Policy, name: str, clock: Clock) -> QeventJobEndReceiver | OarJobEndListener:
    """Return the listener for job ends that a cluster pushes."""
    cluster, far = policy.clusters[name], configured_cluster_address(policy, name)
    adapter, limit_per_s = batch_adapter_of_cluster(far), cluster.push_limit_per_s
    if adapter.listens:
        return OarJobEndListener(name, partial(adapter.listens.listen_for_job_ends, far), limit_per_s, clock.steady_s)
    assert adapter.watches  # the configuration allows no other kind of push
    argv = adapter.watches.end_watcher_command(far)
    folder = f"{HOME}/push/{name}"
    return QeventJobEndReceiver(argv, far.environment(), limit_per_s, folder, clock.steady_s)


def _clusters(policy: Policy, transfers: Iterable[Transfer]) -> frozenset[str]:
    """Return the clusters to query: home, and each cluster of a queue or transfer.

    A site without transfer queues queries all clusters, because campaigns may use each of them.
    """
    used = {policy.site.cluster, *(policy.clusters if policy.why_no_queues else policy.remotes)}
    return frozenset(policy.clusters) & used.union(transfer.remote for transfer in transfers)


def _unfinished(database: StateFile) -> tuple[Transfer, ...]:
    """Return an earlier process's transfers that are open or still need cleaning up."""
    try:
        transfers = TransferRows(database)
        return (*transfers.open(), *transfers.ended())
    except GridbridgeError:
        database.close()
        raise

"""Run gridbridge-poller's rounds, and apply a changed gridbridge.toml without a restart."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access, keep_ssh_connections_open
from gridbridge.decisions.site.service_fault_findings import AwayJob
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.fixed_paths import HOME, LOCK, SPOOL
from gridbridge.model.site_configuration import ClusterSection, JobEndPushKind, Policy
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.program import service_cycle
from gridbridge.program.cluster_observer import ClusterObserver
from gridbridge.program.configuration_in_force import ReloadableConfiguration, read_config_saved_by_service
from gridbridge.program.pushed_job_end_receivers import JobEndListener, QeventJobEndReceiver
from gridbridge.shell.clock import Clock
from gridbridge.shell.service_signals_and_heartbeat import ServiceHeartbeat, StopAndReloadSignals
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_components import PollerResources
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.transfer_acts import TransferActRunner
from gridbridge.transfer.poller.transfer_ledger import config_sections_of_transfer
from gridbridge.transfer.poller.transfer_round import PollerRoundSteps
from gridbridge.transfer.poller.transfer_service import TransferService
from gridbridge.transfer.transfer_history_rows import TransferRows

ANOTHER_RUNS = 1

_log = logging.getLogger(__name__)


def run_poller(signals: StopAndReloadSignals) -> None:
    """Run rounds of the poller until a stop signal; exit if another poller runs."""
    clock = Clock()
    configuration = ReloadableConfiguration(clock, earlier=lambda: read_config_saved_by_service(clock.now()))
    service_cycle.require_service_account(configuration.policy)
    service_cycle.start_service_log_on_stderr(configuration.policy)
    service_cycle.take_program_lock(LOCK, "gridbridge-poller", ANOTHER_RUNS)
    # if the new file is invalid, or lacks parts that open transfers need, the last valid configuration is used
    if earlier := read_config_saved_by_service(clock.now()):
        configuration.keep_earlier_configuration(earlier, _read_away_jobs_in_state_file)
    configuration.log_refusal()
    life_sign = ServiceHeartbeat(LOCK)
    life_sign.announce_long_step()
    poller, policy = PollerDaemon(configuration, signals, clock), configuration.policy
    _log.info("event=start cluster=%s queues=%s", policy.site.cluster, ",".join(policy.queues))
    service_cycle.run_cycles_forever(poller, signals, life_sign, clock)
    _log.info("event=stop")
    os._exit(0)  # threads may still wait for silent clusters


def _read_away_jobs_in_state_file(policy: Policy) -> Iterable[AwayJob]:
    try:
        with closing(StateFile.open(policy.site.state)) as database:
            return frozenset(map(config_sections_of_transfer, TransferRows(database).open_transfers()))
    except StateError:
        return ()  # the service reports an unreadable state file later


class PollerDaemon:
    """Runs the transfer service's rounds, each with the newest valid gridbridge.toml."""

    def __init__(self, configuration: ReloadableConfiguration, signals: StopAndReloadSignals, clock: Clock) -> None:
        self._configuration = configuration
        self._signals = signals
        self._clock = clock
        self.service = build_transfer_service(configuration, clock)
        configuration.save_for_next_run()

    @property
    def pause_s(self) -> float:
        """The pause between two reads of users' messages, in seconds."""
        return self._configuration.policy.poller.spool_interval_s

    @contextmanager
    def open_cycle(self) -> Iterator[PollerRoundSteps]:
        configuration = self._configuration
        if configuration.reload_if_changed(self._signals.has_sighup_come(), self.service.ledger.away_jobs):
            configuration.save_for_next_run()
            if configuration.policy is not self.service.policy:
                reload_transfer_service(self.service, configuration.policy)
                service_cycle.set_log_level(configuration.policy)
            self.service.resources.views.publish_configuration_status(configuration.status_to_publish())
        with self.service.open_round_transaction() as a_round:
            yield a_round
        if self.service.has_unqueried_cluster():
            reload_transfer_service(self.service, self.service.policy)

    def release(self) -> None:
        """Close the service's files, threads and child processes."""
        self.service.shut_down()

    def should_start_cycle_early(self) -> bool:
        """Return False, because every round of the poller begins after the usual pause."""
        return False

    def recover(self) -> None:
        """Build the service anew after a failed round; the next round reads the same messages again."""
        self._configuration.reload_if_changed(self._signals.has_sighup_come(), self.service.ledger.away_jobs)
        self.service = build_transfer_service(self._configuration, self._clock)
        self._configuration.save_for_next_run()
        service_cycle.set_log_level(self._configuration.policy)


_USUAL = ClusterSection()
CLUSTER_KEYS_WITHOUT_EFFECT_ON_QUERIES = {
    key: getattr(_USUAL, key)
    for key in (
        *("shell", "spool_shared", "remote_spool_dir", "stage_dir", "accounting"),
        *("push", "push_limit_per_s", "claim", "claim_wait_s"),
    )
}


def build_transfer_service(configuration: ReloadableConfiguration, clock: Clock) -> TransferService:
    """Build the transfer service, and load what an earlier process left in the state file."""
    policy = configuration.policy
    keep_ssh_connections_open(policy)
    database = StateFile.open(policy.site.state)
    try:
        clusters = _clusters_to_query(
            policy, (*TransferRows(database).open_transfers(), *TransferRows(database).watched_closed_transfers())
        )
    except GridbridgeError:
        database.close()
        raise
    resources = PollerResources(
        database=database,
        inbox=StarterMessageInbox(SPOOL, policy.poller.spool_files_per_uid, clock),
        acts=TransferActRunner(policy),
        views=TransferStatePublisher(policy, clock, configuration=configuration.status_to_publish()),
        observers={name: _make_cluster_observer(policy, name, clock) for name in clusters},
        clock=clock,
    )
    service = TransferService(policy, resources)
    try:
        for name in filter(partial(_does_cluster_push_job_ends, policy), clusters):
            resources.pushes[name] = _make_job_end_receiver(policy, name, clock)
        service.load_stored_state()
    except GridbridgeError:
        service.shut_down()
        raise
    return service


def reload_transfer_service(service: TransferService, policy: Policy) -> None:
    """Apply a changed configuration to the service; raise StateError if a file can't be published."""
    keep_ssh_connections_open(policy)
    ledger, observers = service.ledger, service.resources.observers
    clusters = _clusters_to_query(policy, (*ledger.open_transfers(), *ledger.ended.values()))
    same = frozenset(
        name
        for name in clusters & observers.keys()
        if replace(service.policy.clusters[name], **CLUSTER_KEYS_WITHOUT_EFFECT_ON_QUERIES)
        == replace(policy.clusters[name], **CLUSTER_KEYS_WITHOUT_EFFECT_ON_QUERIES)
    )
    _reload_cluster_observers(service, policy, clusters, same)
    _reload_job_end_receivers(service, policy, clusters, same)
    if any(transfer.remote in clusters - same for transfer in ledger.open_transfers()):
        service.situations.restart_silence_measurement()
    service.use_changed_configuration(policy)
    service.publish_routes()


def _reload_cluster_observers(
    service: TransferService, policy: Policy, clusters: frozenset[str], same: frozenset[str]
) -> None:
    observers = service.resources.observers
    for name in observers.keys() - same:
        observers.pop(name).shut_down_threads()
        service.answers.forget_cluster_results(name)
    for name in same:
        queues = _transfer_queues_if_home_cluster(policy, name)
        observers[name].use_changed_configuration(configured_cluster_access(policy, name), policy.poller, queues)
    for name in clusters - same:
        observers[name] = _make_cluster_observer(policy, name, service.resources.clock)


def _reload_job_end_receivers(
    service: TransferService, policy: Policy, clusters: frozenset[str], same: frozenset[str]
) -> None:
    pushes, clock = service.resources.pushes, service.resources.clock
    before, after = service.policy.clusters, policy.clusters
    kept = ("push", "push_limit_per_s")
    alike = {name for name in same if all(getattr(before[name], key) == getattr(after[name], key) for key in kept)}
    for name in pushes.keys() - alike:
        pushes.pop(name).stop_receiving_job_ends()
    for name in clusters - alike:
        if _does_cluster_push_job_ends(policy, name):
            pushes[name] = _make_job_end_receiver(policy, name, clock)


def _does_cluster_push_job_ends(policy: Policy, name: str) -> bool:
    return policy.clusters[name].push is not JobEndPushKind.NONE


def _make_cluster_observer(policy: Policy, name: str, clock: Clock) -> ClusterObserver:
    return ClusterObserver(
        name,
        configured_cluster_access(policy, name),
        policy.poller,
        clock,
        users=policy.clusters[name].users,
        transfer_queues=_transfer_queues_if_home_cluster(policy, name),
    )


def _transfer_queues_if_home_cluster(policy: Policy, name: str) -> tuple[str, ...]:
    return tuple(policy.queues) if name == policy.site.cluster else ()


def _make_job_end_receiver(policy: Policy, name: str, clock: Clock) -> QeventJobEndReceiver | JobEndListener:
    cluster, far = policy.clusters[name], configured_cluster_access(policy, name)
    adapter, limit_per_s = batch_adapter_of_cluster(far), cluster.push_limit_per_s
    if adapter.listen_for_job_ends:
        return JobEndListener(name, partial(adapter.listen_for_job_ends, far), limit_per_s, clock.steady_s)
    assert adapter.end_watcher_argv  # the configuration allows no other kind of push
    argv = adapter.end_watcher_argv(far)
    folder = f"{HOME}/push/{name}"
    return QeventJobEndReceiver(argv, far.command_environment(), limit_per_s, folder, clock.steady_s)


def _clusters_to_query(policy: Policy, transfers: Iterable[Transfer]) -> frozenset[str]:
    """Return home and the clusters of transfer queues and `transfers`; without queues all clusters."""
    used = {policy.site.cluster, *(policy.clusters if policy.why_no_transfer_queues else policy.remote_cluster_names)}
    return frozenset(policy.clusters) & used.union(transfer.remote for transfer in transfers)

"""Shows the balancer's nodes to administrators, records requests for the next round, and logs alerts."""

import logging
import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime

from gridbridge.batch.optional_adapter_protocols import ExecutionHostMembership
from gridbridge.decisions.elastic import (
    machine_list_reconciliation,
    node_acts_from_balance_plan,
    nodes_needing_administrator,
)
from gridbridge.decisions.elastic.nodes_needing_administrator import is_site_owned_host
from gridbridge.elastic.balancer.balance_journal import PROGRAM
from gridbridge.elastic.balancer.balancer_round_decision import SiteBalancerSettings
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.errors import StateError
from gridbridge.model.elastic import elastic_nodes
from gridbridge.model.elastic.published_balance import BalancerStateOverview
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE
from gridbridge.model.published_status_and_reports import JournalledDecisionWithInputs
from gridbridge.shell.program_startup import switch_process_to_account
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile

MOST_LOOKED_AT = 10_000  # limit of journal entries searched, newest first


def read_balancer_state_overview(now: datetime, path: str = BALANCE_STATE) -> BalancerStateOverview:
    """Load nodes, pool failures, costs and requests; raise StateError without a readable state file."""
    with _open_state_file_as_balancer(path, is_unchanged=True) as database:
        memory = BalancerStateRows(database)
        return BalancerStateOverview(
            nodes=memory.nodes.load_all_nodes(),
            pools=tuple(sorted(memory.pool_failure_records().items())),
            last_round=memory.last_round_time(),
            spent=memory.month_cost(now),
            asked=tuple(sorted(memory.administrator_requests_by_host().items())),
        )


def record_node_change_request(
    host: str, request: elastic_nodes.AdministratorNodeRequestKind, path: str = BALANCE_STATE
) -> elastic_nodes.BalancerOwnedNode:
    """Record a request for the next round; raise StateError if the host is no node, or the node is being removed."""
    with _open_state_file_as_balancer(path, is_unchanged=False) as database:
        memory = BalancerStateRows(database)
        node = next(
            (node for node in memory.nodes.load_all_nodes() if elastic_nodes.is_same_host(node.name, host)), None
        )
        if node is None:
            raise StateError(
                f"{host}: not a node of the balancer; expected a node that `gridbridge balance status` lists"
            )
        if node.state in node_acts_from_balance_plan.LEAVING_STATES:
            raise StateError(f"{node.name}: the removal has begun and can't be stopped")
        memory.store_administrator_request(node.name, request)
        return node


def load_last_node_changing_rounds(count: int, path: str = BALANCE_STATE) -> tuple[JournalledDecisionWithInputs, ...]:
    """Load the last rounds that changed a node; the oldest round comes first."""
    with _open_state_file_as_balancer(path, is_unchanged=True) as database:
        decisions = DecisionJournal(database).last_decisions(MOST_LOOKED_AT)
        return tuple(decision for decision in decisions if decision.program == PROGRAM)[-count:]


@contextmanager
def _open_state_file_as_balancer(path: str, *, is_unchanged: bool) -> Iterator[StateFile]:
    """Open the state file under the balancer's account; root switches to this account."""
    if path == BALANCE_STATE:
        switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(path):
        raise StateError(f"{path}: no round of gridbridge-balance has acted yet")
    with closing(StateFile.open(f"sqlite:///{path}", is_unchanged=is_unchanged)) as database:
        yield database


_log = logging.getLogger(__name__)


def log_alerts_for_administrators(
    world: elastic_nodes.BalancerNodesSnapshot,
    site: SiteBalancerSettings,
    listed: Container[str],
    stored: Iterable[elastic_nodes.BalancerOwnedNode],
    membership: ExecutionHostMembership,
    silent_s: float,
) -> None:
    """Log what an administrator must repair, with commands to run; `listed` has the pools with providers."""
    _alert_about_nodes(world, site, listed)
    _alert_about_machines(world, site)
    for node in nodes_needing_administrator.silent_nodes_with_tasks(world, silent_s):
        _log.warning(
            "event=hangs node=%s machine=%s mend=%r",
            node.name,
            node.machine,
            membership.commands_to_end_host_tasks(node.name),
        )
    off_hosts = nodes_needing_administrator.standby_hosts_no_longer_configured(world, stored)
    own = site.own_hosts | {elastic_nodes.short_host_name(host.name) for host in off_hosts}
    prefix = site.rules.node_name_prefix(world.cluster)
    for name in nodes_needing_administrator.find_silent_hosts_without_machine(world, prefix, silent_s, own):
        _log.warning(
            "event=no_machine host=%s mend=%r", name, f"if the host is gone: {membership.commands_to_remove_host(name)}"
        )
    for node in nodes_needing_administrator.find_powered_off_hosts_with_tasks(world):
        mend = f"switch the host on again, or: {membership.commands_to_end_host_tasks(node.name)}"
        _log.warning("event=off_under_tasks node=%s mend=%r", node.name, mend)
    for node in off_hosts:
        _log.warning("event=left_off node=%s command=%r", node.name, membership.command_to_reopen_host(node.name))


def _alert_about_nodes(
    world: elastic_nodes.BalancerNodesSnapshot, site: SiteBalancerSettings, listed: Container[str]
) -> None:
    words = " node=%s pool=%s provider=%s machine=%s mend=%r"
    for node in machine_list_reconciliation.nodes_with_undeleted_machines(world):
        mend, provider = site.machine_removal_command(node.pool, node.machine), site.provider_of_pool(node.pool)
        _log.warning("event=not_destroyed" + words, node.name, node.pool, provider, node.machine, mend)
    for node in (node for node in world.kept if node.pool not in listed):
        section = f"write [pool.{node.pool}] with its provider into gridbridge.toml again"
        mend = f"{section}, then `gridbridge balance drain {node.name}`"
        if is_site_owned_host(node):
            mend += f"; if [provider.{node.pool}] switched it on and off, write that section again"
        _log.warning("event=no_provider node=%s pool=%s machine=%s mend=%r", node.name, node.pool, node.machine, mend)
    for node in nodes_needing_administrator.find_reporting_nodes_without_listed_machine(world):
        provider = site.provider_of_pool(node.pool)
        advice = f"have provider {provider} list the machine again (region, account and program as before)"
        mend = f"{advice}, then `gridbridge balance drain {node.name}`"
        _log.warning("event=not_listed" + words, node.name, node.pool, provider, node.machine, mend)


def _alert_about_machines(world: elastic_nodes.BalancerNodesSnapshot, site: SiteBalancerSettings) -> None:
    for machine in machine_list_reconciliation.machines_named_as_host_with_other_address(world):
        hint = f"if the machine is that host, make {machine.name} resolve to {machine.address} here, else "
        hint = hint if machine.address and not world.addresses.get(machine.name, "") else ""
        mend = f"{hint}rename the machine, or {site.machine_removal_command(machine.pool, machine.id)}"
        _log.warning("event=other_host machine=%s name=%s mend=%r", machine.id, machine.name, mend)
    for pool, machine in nodes_needing_administrator.find_machines_of_unknown_pools(world):
        lacks = f"[pool.{machine.pool}]" if machine.pool else f"a tag {elastic_nodes.POOL_TAG} with its pool"
        mend = f"give the machine {lacks}, or {site.machine_removal_command(pool, machine.id)}"
        words = "event=unknown_pool machine=%s name=%s pool=%r mend=%r"
        _log.warning(words, machine.id, machine.name, machine.pool, mend)


def describe_nodes_without_provider(
    nodes: Iterable[elastic_nodes.BalancerOwnedNode], opening: Callable[[str], str]
) -> tuple[str, ...]:
    """Describe each node that rounds no longer manage, because no provider is configured."""
    return tuple(
        f"{node.name}: {node.state.value}, and no round manages the node; "
        + (
            f"`{opening(node.name)}` opens the host once the host is on"
            if is_site_owned_host(node)
            else f"the node is removed when [pool.{node.pool}] and its provider are configured again"
        )
        for node in nodes
        if not is_site_owned_host(node) or node.state is not elastic_nodes.ElasticNodeState.READY
    )

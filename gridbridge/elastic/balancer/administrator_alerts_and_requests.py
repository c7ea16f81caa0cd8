"""Shows the balancer's nodes to administrators, records their requests, and logs problems for administrators.

A request is a row in the balancer's state file; the next round carries out the request.
"""

import logging
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from gridbridge.decisions.elastic import machine_list_reconciliation, node_acts_from_balance_plan
from gridbridge.decisions.elastic.nodes_needing_administrator import is_site_owned_host
from gridbridge.elastic.balancer.balance_journal import PROGRAM
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.errors import StateError
from gridbridge.model.elastic.balance_sections import NodePoolSection
from gridbridge.model.elastic.elastic_nodes import (
    POOL_TAG,
    AdministratorNodeRequestKind,
    BalancerNodesSnapshot,
    BalancerOwnedNode,
    ElasticNodeState,
    ProviderMachine,
    is_same_host,
)
from gridbridge.model.elastic.published_balance import BalancerStateOverview
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE
from gridbridge.model.published_status_and_reports import JournalledProgramDecision
from gridbridge.shell.program_startup import switch_process_to_account
from gridbridge.state.decision_journal import JournalledDecisionRows
from gridbridge.state.state_file import StateFile

MOST_LOOKED_AT = 10_000  # newest journal entries to search


def load_balancer_overview(now: datetime, path: str = BALANCE_STATE) -> BalancerStateOverview:
    """Load nodes, pool failures, costs and requests; raise StateError if there is no readable state file."""
    with _opened(path, is_unchanged=True) as database:
        memory = BalancerStateRows(database)
        return BalancerStateOverview(
            nodes=memory.nodes.all(),
            pools=tuple(sorted(memory.records().items())),
            last_round=memory.last_round(),
            spent=memory.spent(now),
            asked=tuple(sorted(memory.wishes().items())),
        )


def record_node_change_request(
    host: str, request: AdministratorNodeRequestKind, path: str = BALANCE_STATE
) -> BalancerOwnedNode:
    """Record a request for the next round; raise StateError for a host that is no node or is being removed."""
    with _opened(path, is_unchanged=False) as database:
        memory = BalancerStateRows(database)
        node = next((node for node in memory.nodes.all() if is_same_host(node.name, host)), None)
        if node is None:
            raise StateError(f"{host}: not a node of the balancer; expected a node of `gridbridge balance status`")
        if node.state in node_acts_from_balance_plan.LEAVING_STATES:
            raise StateError(f"{node.name}: the removal has begun and can't be stopped")
        memory.ask(node.name, request)
        return node


def load_last_node_changing_rounds(count: int, path: str = BALANCE_STATE) -> tuple[JournalledProgramDecision, ...]:
    """Load the last rounds that changed a node; the oldest round comes first."""
    with _opened(path, is_unchanged=True) as database:
        decisions = JournalledDecisionRows(database).last(MOST_LOOKED_AT)
        return tuple(decision for decision in decisions if decision.program == PROGRAM)[-count:]


@contextmanager
def _opened(path: str, *, is_unchanged: bool) -> Iterator[StateFile]:
    """Open the state file as the balancer's account; root switches to the balancer's account."""
    if path == BALANCE_STATE:
        switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(path):
        raise StateError(f"{path}: no round of gridbridge-balance has acted yet")
    database = StateFile.open(f"sqlite:///{path}", is_unchanged=is_unchanged)
    try:
        yield database
    finally:
        database.close()


_log = logging.getLogger(__name__)

Ending = Callable[[str, str], str]  # maps pool and machine id to the command that destroys the machine


def alert_undestroyed_machines(
    world: BalancerNodesSnapshot, pools: Mapping[str, NodePoolSection], ending: Ending
) -> None:
    """Log removed nodes whose machines the provider has not destroyed."""
    for node in machine_list_reconciliation.nodes_with_undeleted_machines(world):
        words = "event=not_destroyed node=%s pool=%s provider=%s machine=%s mend=%r"
        pool, mend = pools.get(node.pool, NodePoolSection()), ending(node.pool, node.machine)
        _log.warning(words, node.name, node.pool, pool.provider, node.machine, mend)


def alert_nodes_without_provider(world: BalancerNodesSnapshot, providers: Container[str]) -> None:
    """Log nodes that rounds leave alone, because the nodes' pool has no provider any more."""
    for node in (node for node in world.kept if node.pool not in providers):
        words = "event=no_provider node=%s pool=%s machine=%s mend=%r"
        section = f"write [pool.{node.pool}] with its provider into gridbridge.toml again"
        mend = f"{section}, then `gridbridge balance drain {node.name}`"
        if is_site_owned_host(node):
            mend += f"; if [provider.{node.pool}] switched it on and off, write that section again"
        _log.warning(words, node.name, node.pool, node.machine, mend)


def alert_unmanaged_hosts_still_off(nodes: Iterable[BalancerOwnedNode], opening: Callable[[str], str]) -> None:
    """Log the command that opens each switched-off host that the balancer no longer manages."""
    for node in nodes:
        _log.warning("event=left_off node=%s command=%r", node.name, opening(node.name))


def describe_nodes_without_provider(
    nodes: Iterable[BalancerOwnedNode], opening: Callable[[str], str]
) -> tuple[str, ...]:
    """Describe each node that rounds no longer manage, because no provider is configured."""
    return tuple(
        f"{node.name}: {node.state.value}, and no round continues; {_mend(node, opening)}"
        for node in nodes
        if not is_site_owned_host(node) or node.state is not ElasticNodeState.READY
    )


def _mend(node: BalancerOwnedNode, opening: Callable[[str], str]) -> str:
    if is_site_owned_host(node):
        return f"`{opening(node.name)}` opens the host once the host is on"
    return f"with [pool.{node.pool}] and its provider configured again, the node is removed"


def alert_nodes_absent_from_provider(nodes: Iterable[BalancerOwnedNode], pools: Mapping[str, NodePoolSection]) -> None:
    """Log nodes that report to the cell and are missing from the provider's list."""
    for node in nodes:
        words = "event=not_listed node=%s pool=%s provider=%s machine=%s mend=%r"
        provider = pools.get(node.pool, NodePoolSection()).provider
        advice = f"have provider {provider} list the machine again (region, account and program as before)"
        mend = f"{advice}, then `gridbridge balance drain {node.name}`"
        _log.warning(words, node.name, node.pool, provider, node.machine, mend)


def alert_machines_named_as_other_hosts(world: BalancerNodesSnapshot, ending: Ending) -> None:
    """Log machines of a provider that have the name of another host of the cell."""
    for machine in machine_list_reconciliation.machines_named_like_another_host(world):
        words = "event=other_host machine=%s name=%s mend=%r"
        leads = world.addresses.get(machine.name, "")
        hint = f"have {machine.name} lead to {machine.address} here if the machine is that host, else "
        hint = hint if machine.address and not leads else ""
        mend = f"{hint}rename the machine, or {ending(machine.pool, machine.id)}"
        _log.warning(words, machine.id, machine.name, mend)


def alert_machines_of_unknown_pool(machines: Iterable[tuple[str, ProviderMachine]], ending: Ending) -> None:
    """Log machines whose pool is not configured; `machines` has the pool whose provider lists each machine."""
    for pool, machine in machines:
        lacks = f"[pool.{machine.pool}]" if machine.pool else f"a tag {POOL_TAG} with its pool"
        mend = f"give the machine {lacks}, or {ending(pool, machine.id)}"
        words = "event=unknown_pool machine=%s name=%s pool=%r mend=%r"
        _log.warning(words, machine.id, machine.name, machine.pool, mend)


def alert_hosts_without_machine(hosts: Iterable[str], forgetting: Callable[[str], str]) -> None:
    """Log silent hosts that are named like nodes and have no machine at any provider."""
    for name in hosts:
        mend = f"if the host is gone: {forgetting(name)}"
        _log.warning("event=no_machine host=%s mend=%r", name, mend)


def alert_late_keep_requests(nodes: Iterable[str]) -> None:
    """Log nodes that an administrator wanted to keep after the removal had begun."""
    for name in nodes:
        _log.warning("event=kept_too_late node=%s", name)


def alert_dead_nodes_with_tasks(nodes: Iterable[BalancerOwnedNode], clearing: Callable[[str], str]) -> None:
    """Log dead nodes on which the cell still lists tasks."""
    for node in nodes:
        words = "event=hangs node=%s machine=%s mend=%r"
        _log.warning(words, node.name, node.machine, clearing(node.name))


def alert_busy_hosts_off_by_hand(nodes: Iterable[BalancerOwnedNode], clearing: Callable[[str], str]) -> None:
    """Log hosts that somebody switched off while the hosts ran tasks."""
    for node in nodes:
        mend = f"switch the host on again, or: {clearing(node.name)}"
        _log.warning("event=off_under_tasks node=%s mend=%r", node.name, mend)

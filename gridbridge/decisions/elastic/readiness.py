"""Whether so many hosts are silent or in error that nothing is decided, nor taken out for it.

As Kubernetes' autoscaler does: more than 45 % and more than three are a fault of a switch or of
the master, and not of hosts.
"""

from collections.abc import Iterable

from gridbridge.decisions.elastic.demand.free_capacity import queue_instances_by_host
from gridbridge.decisions.elastic.demand.scale_down import is_host_silent_or_in_error
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.node import ElasticNodeState, short_host_name

UNREADY_PART, UNREADY_HOSTS = 0.45, 3
NOT_COUNTED = (ElasticNodeState.STANDBY, ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)


def count_unready_hosts(situation: BalanceSituation) -> tuple[int, int]:
    """Return how many hosts should be ready, and how many of them are not."""
    by_host = queue_instances_by_host(situation)
    names = _hosts_expected_ready(situation, by_host)
    return len(names), sum(is_host_silent_or_in_error(by_host[name]) for name in names)


def are_too_many_hosts_unready(situation: BalanceSituation) -> bool:
    """Say whether too many are not."""
    hosts, unready = count_unready_hosts(situation)
    return unready > UNREADY_HOSTS and unready > UNREADY_PART * hosts


def _hosts_expected_ready(situation: BalanceSituation, by_host: Iterable[str]) -> list[str]:
    """Return the hosts that should be ready: those that come or go are not."""
    states = {short_host_name(node.name): node.state for node in situation.nodes}
    states_by_name = ((name, states.get(short_host_name(name))) for name in by_host)
    return [
        name
        for name, state in states_by_name
        if state is None or not (state.is_coming or state in NOT_COUNTED)
    ]

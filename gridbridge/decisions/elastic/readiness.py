"""Whether so many hosts are silent or in error that nothing is decided, nor taken out for it.

As Kubernetes' autoscaler does: more than 45 % and more than three are a fault of a switch or of
the master, and not of hosts.
"""

from collections.abc import Iterable

from gridbridge.decisions.elastic.demand.free_capacity import instances_of
from gridbridge.decisions.elastic.demand.scale_down import is_broken
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.node import NodeState, short_name

UNREADY_PART, UNREADY_HOSTS = 0.45, 3
NOT_COUNTED = (NodeState.STANDBY, NodeState.DRAINING, NodeState.REMOVING)


def counted(situation: BalanceSituation) -> tuple[int, int]:
    """Return how many hosts should be ready, and how many of them are not."""
    by_host = instances_of(situation)
    names = _expected(situation, by_host)
    return len(names), sum(is_broken(by_host[name]) for name in names)


def is_unready(situation: BalanceSituation) -> bool:
    """Say whether too many are not."""
    hosts, unready = counted(situation)
    return unready > UNREADY_HOSTS and unready > UNREADY_PART * hosts


def _expected(situation: BalanceSituation, by_host: Iterable[str]) -> list[str]:
    """Return the hosts that should be ready: those that come or go are not."""
    states = {short_name(node.name): node.state for node in situation.nodes}
    states_by_name = ((name, states.get(short_name(name))) for name in by_host)
    return [
        name
        for name, state in states_by_name
        if state is None or not (state.is_coming or state in NOT_COUNTED)
    ]

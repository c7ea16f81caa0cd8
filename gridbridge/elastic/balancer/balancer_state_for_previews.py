"""Read the balancer's state file for commands that preview a round."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gridbridge.decisions.elastic import node_acts_from_balance_plan
from gridbridge.decisions.elastic.clock_step import limit_time_to_now
from gridbridge.decisions.elastic.pool_choice_and_pauses import paused_pools
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandPolicySection
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.owned_nodes import BalancerOwnedNode
from gridbridge.model.fixed_paths import BALANCE_STATE
from gridbridge.model.policy import Policy

if TYPE_CHECKING:  # a preview without a state file loads no SQLAlchemy
    from gridbridge.elastic.balancer.balancer_state_file import BalancerStateRows


def is_balancer_state_unreadable(path: str = "") -> bool:
    """Say whether the balancer may have a state file that this account can't read."""
    path = path or BALANCE_STATE
    home = os.path.dirname(path)
    if not os.path.exists(home) or os.access(path, os.R_OK):
        return False
    return os.path.exists(path) or not os.access(home, os.X_OK)


def load_balancer_nodes(path: str) -> tuple[BalancerOwnedNode, ...]:
    """Return the balancer's stored nodes; empty if the state file is not readable."""
    if not os.access(path, os.R_OK):
        return ()
    with _memory(path) as memory:
        return memory.nodes.all()


def add_saved_balancer_state(situation: BalanceSituation, policy: Policy, path: str = "") -> BalanceSituation:
    """Return the situation with the nodes and facts of the balancer's state file.

    Without a readable state file the situation is unchanged. Without squeeze the site's own working
    hosts are left out, because the balancer never removes them.
    """
    path = path or BALANCE_STATE
    if not os.access(path, os.R_OK):
        return situation
    with _memory(path) as memory:
        is_squeezed = policy.squeeze.enabled
        own = {host.provider for host in policy.powered.values() if not is_squeezed}
        nodes = tuple(
            node_acts_from_balance_plan.node_with_idle_time(node, situation.now)
            for node in memory.nodes.all()
            if node.pool not in own or node.state is not ElasticNodeState.READY
        )
        return replace(add_stored_balancer_facts(situation, memory, policy.balance, policy.demand), nodes=nodes)


@contextmanager
def _memory(path: str) -> "Iterator[BalancerStateRows]":
    """Open the state file for reading only."""
    from gridbridge.elastic.balancer.balancer_state_file import BalancerStateRows
    from gridbridge.state.database import StateFile

    database = StateFile.open(f"sqlite:///{path}", is_unchanged=True)
    try:
        yield BalancerStateRows(database)
    finally:
        database.close()


def add_stored_balancer_facts(
    situation: BalanceSituation, memory: "BalancerStateRows", rules: BalanceSection, demand: DemandPolicySection
) -> BalanceSituation:
    """Return the situation with all stored facts but the nodes; later times become now."""
    able = (job for row in situation.cell.waiting if row.can_start for job in row.jobs)
    return replace(
        situation,
        last_change=limit_time_to_now(memory.last_change(), situation.now),
        eligible_since=memory.eligible(able, situation.now),
        watched=memory.watched(situation.now),
        failed=paused_pools(memory.records(situation.now), rules, demand.retry_s, situation.now),
        spent=memory.spent(situation.now),
    )

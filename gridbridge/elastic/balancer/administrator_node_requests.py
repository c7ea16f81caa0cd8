"""Show administrators the balancer's nodes, and record the changes that they request.

A request is a row in the balancer's state file, and the next round carries it out.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from gridbridge.decisions.elastic import node_acts_from_balance_plan
from gridbridge.elastic.balancer.balance_journal import PROGRAM
from gridbridge.elastic.balancer.balancer_state_file import BalancerStateRows
from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.elastic.owned_nodes import AdministratorNodeRequestKind, BalancerOwnedNode
from gridbridge.model.elastic.published_balance import BalancerStateOverview
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE
from gridbridge.model.status_report import JournalledProgramDecision
from gridbridge.shell.process_account import switch_process_to_account
from gridbridge.state.database import StateFile
from gridbridge.state.database.decision_journal_table import JournalledDecisionRows

MOST_LOOKED_AT = 10_000  # newest journal entries to search


def load_balancer_overview(now: datetime, path: str = BALANCE_STATE) -> BalancerStateOverview:
    """Load the balancer's nodes, pools, costs and pending requests from its state file.

    Raises StateError for an account that may not read the file, or before the first
    round.
    """
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
    """Record an administrator's request to drain, keep or free a node in the next round.

    The request replaces an earlier request for the node. Raises StateError for a host that is no
    node of the balancer, and for a node that is already being removed.
    """
    with _opened(path, is_unchanged=False) as database:
        memory = BalancerStateRows(database)
        node = next((node for node in memory.nodes.all() if is_same_host(node.name, host)), None)
        if node is None:
            raise StateError(f"{host}: no node of the balancer's; gridbridge balance status")
        if node.state in node_acts_from_balance_plan.LEAVING_STATES:
            raise StateError(f"{node.name}: it is being removed, which nobody can stop by now")
        memory.ask(node.name, request)
        return node


def load_last_node_changing_rounds(count: int, path: str = BALANCE_STATE) -> tuple[JournalledProgramDecision, ...]:
    """Load the last rounds that changed a node, the oldest first."""
    with _opened(path, is_unchanged=True) as database:
        decisions = JournalledDecisionRows(database).last(MOST_LOOKED_AT)
        return tuple(decision for decision in decisions if decision.program == PROGRAM)[-count:]


@contextmanager
def _opened(path: str, *, is_unchanged: bool) -> Iterator[StateFile]:
    """Open the state file as the balancer's account; root changes to this account."""
    if path == BALANCE_STATE:
        switch_process_to_account(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(path):
        raise StateError(f"{path}: no round of gridbridge-balance has acted yet")
    database = StateFile.open(f"sqlite:///{path}", is_unchanged=is_unchanged)
    try:
        yield database
    finally:
        database.close()

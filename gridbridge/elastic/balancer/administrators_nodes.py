"""The balancer's nodes for administrators: what is kept of them, and what they ask for.

A request lies in the balancer's own state file, and its next round does it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from gridbridge.decisions.elastic import round_acts
from gridbridge.elastic.balancer.balance_journal import PROGRAM
from gridbridge.elastic.balancer.round_state import RoundState
from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import is_same_host
from gridbridge.model.elastic.owned_nodes import NodeRequestKind, OwnedNode
from gridbridge.model.elastic.published_balance import BalancerOverview
from gridbridge.model.places import BALANCE_ACCOUNT, BALANCE_SET_UP, BALANCE_STATE
from gridbridge.model.status_report import RecordedDecision
from gridbridge.shell.account import become
from gridbridge.state.database import StateFile
from gridbridge.state.database.decisions import DecisionRows

MOST_LOOKED_AT = 10_000  # decisions: other programs have no state file in common with this one


def overview(now: datetime, path: str = BALANCE_STATE) -> BalancerOverview:
    """Return what is kept; StateError for whoever may not see it, or where nothing is kept."""
    with _opened(path, is_unchanged=True) as database:
        memory = RoundState(database)
        return BalancerOverview(
            nodes=memory.nodes.all(),
            pools=tuple(sorted(memory.records().items())),
            last_round=memory.last_round(),
            spent=memory.spent(now),
            asked=tuple(sorted(memory.wishes().items())),
        )


def ask(host: str, request: NodeRequestKind, path: str = BALANCE_STATE) -> OwnedNode:
    """Have the next round drain, keep or free a node.

    StateError if it is none of the balancer's, or is on its way out. A request replaces the one
    before.
    """
    with _opened(path, is_unchanged=False) as database:
        memory = RoundState(database)
        node = next((node for node in memory.nodes.all() if is_same_host(node.name, host)), None)
        if node is None:
            raise StateError(f"{host}: no node of the balancer's; gridbridge balance status")
        if node.state in round_acts.LEAVING_STATES:
            raise StateError(f"{node.name}: it is being removed, which nobody can stop by now")
        memory.ask(node.name, request)
        return node


def history(count: int, path: str = BALANCE_STATE) -> tuple[RecordedDecision, ...]:
    """Return the last rounds that did something, oldest first."""
    with _opened(path, is_unchanged=True) as database:
        decisions = DecisionRows(database).last(MOST_LOOKED_AT)
        return tuple(decision for decision in decisions if decision.program == PROGRAM)[-count:]


@contextmanager
def _opened(path: str, *, is_unchanged: bool) -> Iterator[StateFile]:
    """Open the state file as the balancer's account, to which root changes."""
    if path == BALANCE_STATE:
        become(BALANCE_ACCOUNT, BALANCE_SET_UP)
    if not os.path.exists(path):
        raise StateError(f"{path}: no round of gridbridge-balance has acted yet")
    database = StateFile.open(f"sqlite:///{path}", is_unchanged=is_unchanged)
    try:
        yield database
    finally:
        database.close()

"""A host of the cell is opened: its node works."""

from dataclasses import replace
from datetime import datetime

from gridbridge.elastic.acts.membership_protocol import Membership
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.owned_nodes import OwnedNode


def opened(
    node: OwnedNode, membership: Membership, closed: frozenset[str], now: datetime
) -> OwnedNode:
    """Let tasks start at a node, but in closed queues; return it as ready since now."""
    step = membership.open(node.name, closed)
    return replace(node.entering(ElasticNodeState.READY, now), idle_since=None, step=step)

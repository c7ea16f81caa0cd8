"""Enable a node's queues, so that it runs tasks."""

from dataclasses import replace
from datetime import datetime

from gridbridge.elastic.acts.membership_protocol import ClusterMembership
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.owned_nodes import OwnedNode


def open_node(
    node: OwnedNode, membership: ClusterMembership, closed: frozenset[str], now: datetime
) -> OwnedNode:
    """Enable a node's queues, but not its `closed` queues; return the node as ready since `now`."""
    step = membership.open(node.name, closed)
    return replace(node.entering(ElasticNodeState.READY, now), idle_since=None, step=step)

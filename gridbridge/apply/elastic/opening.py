"""A host of the cell is opened: its node works."""

from dataclasses import replace
from datetime import datetime

from gridbridge.apply.elastic.membership_protocol import Membership
from gridbridge.model.elastic.nodes import NodeState
from gridbridge.model.elastic.owned import Owned


def opened(node: Owned, membership: Membership, now: datetime) -> Owned:
    """Let tasks start at a node; return it as ready since now."""
    membership.open(node.name)
    return replace(node.entering(NodeState.READY, now), idle_since=None)

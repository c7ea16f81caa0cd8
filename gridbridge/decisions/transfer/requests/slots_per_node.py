"""How a parallel job's slots lie on the nodes of OAR (sge_pe(5), allocation_rule).

OAR takes a request literally: a job waits until as many nodes have as much free. Groups of one
request get different slots, but some of their nodes may be the same.
"""

from gridbridge.model.transfer.request_rules import FILL_UP, ROUND_ROBIN, is_fixed

Groups = tuple[tuple[int, int], ...]  # nodes, and slots of each; 0 nodes: wherever they are free
ONE_NODE: Groups = ()  # as many as there are


def groups(slots: int, spread: str, nodes: int) -> Groups:
    """Return the groups to ask for, `slots` in all, of a cluster with that many nodes.

    With a fixed number for each node a rest goes to one more node, or beside others where a node
    has room. With round robin each node gets one slot, then each gets another; 0 nodes: the number
    is not known.
    """
    if is_fixed(spread):
        full, remainder = divmod(slots, int(spread))
        return _nonempty((full, int(spread)), (1, remainder))
    if spread == ROUND_ROBIN:
        used = min(slots, nodes or slots)
        per_node, more = divmod(slots, used)
        return _nonempty((used, per_node), (more, 1))
    return ((0, slots),) if spread == FILL_UP else ONE_NODE


def _nonempty(*pairs: tuple[int, int]) -> Groups:
    return tuple(pair for pair in pairs if all(pair))

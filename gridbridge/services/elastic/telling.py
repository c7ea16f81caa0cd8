"""Tells administrators, once a round, of what no round mends by itself: a line each."""

import logging
from collections.abc import Container, Iterable, Mapping

from gridbridge.decisions.elastic import life
from gridbridge.model.elastic.machines import POOL_TAG, Machine
from gridbridge.model.elastic.owned import Owned, World
from gridbridge.model.elastic.sections import Pool

_log = logging.getLogger(__name__)


def left_over(world: World, pools: Mapping[str, Pool]) -> None:
    """Tell of machines that their provider does not end."""
    for one in life.left_over(world):
        words = "event=not_destroyed node=%s pool=%s provider=%s machine=%s"
        pool = pools.get(one.pool, Pool())
        _log.warning(words, one.name, one.pool, pool.provider, one.machine)


def unreachable(world: World, providers: Container[str]) -> None:
    """Tell of nodes whose pool nobody makes nodes of any more: nothing is done about them."""
    for one in (node for node in world.kept if node.pool not in providers):
        words = "event=no_provider node=%s pool=%s machine=%s"
        _log.warning(words, one.name, one.pool, one.machine)


def other_hosts(world: World) -> None:
    """Tell of machines of ours that have the name of another host of the cell."""
    for one in life.other_hosts(world):
        _log.warning("event=other_host machine=%s name=%s", one.id, one.name)


def homeless(machines: Iterable[Machine]) -> None:
    """Tell of machines of ours whose pool nobody knows: nothing is done about them."""
    for one in machines:
        pool = f"[pool.{one.pool}]" if one.pool else f"a tag {POOL_TAG} with its pool"
        mend = f"give it {pool} and a node is made of it, or end it by hand"
        words = "event=unknown_pool machine=%s name=%s pool=%r mend=%r"
        _log.warning(words, one.id, one.name, one.pool, mend)


def hanging(nodes: Iterable[Owned]) -> None:
    """Tell of nodes that hang under tasks."""
    for one in nodes:
        mend = (
            f"`qmod -rq '*@{one.name}'` has what may run again run elsewhere, `qdel -f` ends jobs"
        )
        _log.warning("event=hangs node=%s machine=%s mend=%r", one.name, one.machine, mend)

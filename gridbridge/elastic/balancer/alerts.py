"""Tells administrators, once a round, of what no round mends by itself: a line each."""

import logging
from collections.abc import Callable, Container, Iterable, Mapping

from gridbridge.decisions.elastic import node_inventory_check
from gridbridge.decisions.elastic.manual_removal_hint import is_own_host
from gridbridge.model.elastic.balance_sections import Pool
from gridbridge.model.elastic.machines import POOL_TAG, Machine
from gridbridge.model.elastic.node import NodeState
from gridbridge.model.elastic.owned_nodes import OwnedNode, World

_log = logging.getLogger(__name__)


Ending = Callable[[str, str], str]  # what is typed to end a machine, by its pool and its id


def left_over(world: World, pools: Mapping[str, Pool], ending: Ending) -> None:
    """Tell of machines that their provider does not end."""
    for one in node_inventory_check.left_over(world):
        words = "event=not_destroyed node=%s pool=%s provider=%s machine=%s mend=%r"
        pool, mend = pools.get(one.pool, Pool()), ending(one.pool, one.machine)
        _log.warning(words, one.name, one.pool, pool.provider, one.machine, mend)


def unreachable(world: World, providers: Container[str]) -> None:
    """Tell of nodes whose pool nobody makes nodes of any more: nothing is done about them."""
    for one in (node for node in world.kept if node.pool not in providers):
        words = "event=no_provider node=%s pool=%s machine=%s mend=%r"
        section = f"write [pool.{one.pool}] with its provider into gridbridge.toml again"
        mend = f"{section}, then `gridbridge balance drain {one.name}`"
        if is_own_host(one):
            mend += f"; if [provider.{one.pool}] switched it on and off, write that section again"
        _log.warning(words, one.name, one.pool, one.machine, mend)


def left_off(nodes: Iterable[OwnedNode], opening: Callable[[str], str]) -> None:
    """Tell how hosts work again that are off, and that this round forgets."""
    for one in nodes:
        _log.warning("event=left_off node=%s command=%r", one.name, opening(one.name))


def left_behind(nodes: Iterable[OwnedNode], opening: Callable[[str], str]) -> tuple[str, ...]:
    """Return a line for each node that no round goes on with where nobody makes or switches any."""
    return tuple(
        f"{one.name}: {one.state.value}, and no round goes on with it; {_mend(one, opening)}"
        for one in nodes
        if not is_own_host(one) or one.state is not NodeState.READY
    )


def _mend(node: OwnedNode, opening: Callable[[str], str]) -> str:
    if is_own_host(node):
        return f"`{opening(node.name)}` opens it once it is on"
    return f"with [pool.{node.pool}] and its provider there again it is given back"


def unlisted(nodes: Iterable[OwnedNode], pools: Mapping[str, Pool]) -> None:
    """Tell of nodes that report and are not listed: nothing is done about them."""
    for one in nodes:
        words = "event=not_listed node=%s pool=%s provider=%s machine=%s mend=%r"
        provider = pools.get(one.pool, Pool()).provider
        place = f"have provider {provider} list it again (its place, account and program as before)"
        mend = f"{place}, then `gridbridge balance drain {one.name}`"
        _log.warning(words, one.name, one.pool, provider, one.machine, mend)


def other_hosts(world: World, ending: Ending) -> None:
    """Tell of machines of ours that have the name of another host of the cell."""
    for one in node_inventory_check.other_hosts(world):
        words = "event=other_host machine=%s name=%s mend=%r"
        leads = world.addresses.get(one.name, "")
        known = f"have {one.name} lead to {one.address} here if it is that host, else "
        known = known if one.address and not leads else ""
        mend = f"{known}rename it, or {ending(one.pool, one.id)}"
        _log.warning(words, one.id, one.name, mend)


def homeless(machines: Iterable[tuple[str, Machine]], ending: Ending) -> None:
    """Tell of machines of ours whose pool nobody knows: nothing is done about them.

    With each comes a pool whose provider lists it.
    """
    for pool, one in machines:
        lacks = f"[pool.{one.pool}]" if one.pool else f"a tag {POOL_TAG} with its pool"
        mend = f"give it {lacks}, or {ending(pool, one.id)}"
        words = "event=unknown_pool machine=%s name=%s pool=%r mend=%r"
        _log.warning(words, one.id, one.name, one.pool, mend)


def machineless(hosts: Iterable[str], forgetting: Callable[[str], str]) -> None:
    """Tell of hosts named as nodes are that are silent, and of which nobody has a machine."""
    for name in hosts:
        mend = f"if it is gone: {forgetting(name)}"
        _log.warning("event=no_machine host=%s mend=%r", name, mend)


def too_late(nodes: Iterable[str]) -> None:
    """Tell of nodes that somebody wanted to keep when they were being taken out already."""
    for name in nodes:
        _log.warning("event=kept_too_late node=%s", name)


def hanging(nodes: Iterable[OwnedNode], clearing: Callable[[str], str]) -> None:
    """Tell of nodes that hang under tasks."""
    for one in nodes:
        words = "event=hangs node=%s machine=%s mend=%r"
        _log.warning(words, one.name, one.machine, clearing(one.name))


def off_under_tasks(nodes: Iterable[OwnedNode], clearing: Callable[[str], str]) -> None:
    """Tell of hosts that somebody switched off under tasks."""
    for one in nodes:
        mend = f"switch it on again, or: {clearing(one.name)}"
        _log.warning("event=off_under_tasks node=%s mend=%r", one.name, mend)

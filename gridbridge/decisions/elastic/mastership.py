"""When the last machine, the master's own, is ended: StarCluster's --kill-cluster, made safe."""

from gridbridge.decisions.elastic.counting import able
from gridbridge.decisions.elastic.life import host_of
from gridbridge.model.elastic.machines import MASTER_TAG, Machine
from gridbridge.model.elastic.owned import World
from gridbridge.model.elastic.plan import Plan, Situation
from gridbridge.model.elastic.sections import Balance

HOUR_S = 3600.0


def to_end(seen: Situation, world: World, plan: Plan, rules: Balance) -> tuple[str, Machine] | None:
    """Return the pool and the machine of the master when it is to be ended; else None.

    No node is left, no job waits that could start, nothing runs on the master, and its hour is
    nearly over. Exactly one machine must bear the tag that names this cluster's master: a master
    that no provider made is never ended.
    """
    if not rules.kill_master or plan.add or world.kept or any(able(seen.cell.waiting)):
        return None
    master = host_of(seen.master, world.hosts)
    tagged = {
        machine.id: (pool, machine)
        for pool, machines in world.machines.items()
        for machine in machines
        if machine.tags.get(MASTER_TAG) == world.cluster
    }
    if master is None or master.is_busy or len(tagged) != 1:
        return None
    ((pool, machine),) = tagged.values()
    if machine.created is None:
        return None
    minute = (world.now - machine.created).total_seconds() % HOUR_S // 60
    return (pool, machine) if minute >= rules.kill_after_min else None

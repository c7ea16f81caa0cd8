"""Decide when to destroy the master's own machine: StarCluster's --kill-cluster, made safe."""

from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.balance_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import MASTER_TAG, ProviderMachine, is_same_host
from gridbridge.model.elastic.owned_nodes import BalancerNodesSnapshot
from gridbridge.model.grid_engine_amounts import HOUR_S


def master_machine_to_terminate(
    situation: BalanceSituation, world: BalancerNodesSnapshot, plan: BalancePlan, rules: BalanceSection
) -> tuple[str, ProviderMachine] | None:
    """Return the master's pool and machine if the machine is to be destroyed; else None.

    No node, job or other host may remain, nothing may run, and the master's paid hour must be
    nearly over. Exactly one machine must bear this cluster's master tag; other masters are
    never destroyed.
    """
    if (
        not rules.kill_master
        or plan.add
        or plan.wake
        or world.kept
        or situation.cell.waiting
        or _is_cell_in_use(situation)
    ):
        return None
    master, machines = world.host_of(situation.master), machines_tagged_as_master(world)
    if master is None or len(machines) != 1:
        return None
    ((pool, machine),) = machines.values()
    if machine.created is None:
        return None
    minute = (world.now - machine.created).total_seconds() % HOUR_S // 60
    return (pool, machine) if minute >= rules.kill_after_min else None


def machines_tagged_as_master(world: BalancerNodesSnapshot) -> dict[str, tuple[str, ProviderMachine]]:
    """Return the machines tagged as this cluster's master, with their pools, by id."""
    return {
        machine.id: (pool, machine)
        for pool, machines in world.machines.items()
        for machine in machines
        if machine.tags.get(MASTER_TAG) == world.cluster
    }


def _is_cell_in_use(situation: BalanceSituation) -> bool:
    """Say whether the cell lists a host beside the master, or anything runs."""
    instances = situation.cell.instances
    hosts = [*(host.name for host in situation.cell.hosts), *(instance.host for instance in instances)]
    has_others = not all(is_same_host(host, situation.master) for host in hosts)
    return has_others or any(instance.is_wanted for instance in instances)

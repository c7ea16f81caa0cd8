"""Which nodes waiting tasks would go to, first fit: what the rules that a replay compares share."""

from dataclasses import dataclass

from gridbridge.decisions.elastic.starcluster_counts import startable_waiting_jobs
from gridbridge.model.elastic.balance_plan import BalanceFigures, BalanceSituation
from gridbridge.model.elastic.node import ElasticNodeState


@dataclass(slots=True, kw_only=True)
class FreeSlotBins:
    """Free slots of nodes, those that are there first; tasks are put in as they come."""

    names: list[str]
    free: list[int]
    new_slots: int  # of a new node
    matched: set[str]
    new: int = 0

    def put(self, slots: int, tasks: int) -> None:
        """Put tasks of one width in, with new nodes where nothing is free."""
        if slots > self.new_slots:
            self._spread(slots * tasks)
            return
        for index, name in enumerate(self.names):
            fit = min(tasks, self.free[index] // slots)
            if fit:
                self.free[index] -= fit * slots
                self.matched.add(name)
                tasks -= fit
            if not tasks:
                return
        per_node = self.new_slots // slots
        self._add(-(-tasks // per_node), self.new_slots - per_node * slots)
        self.free[-1] += (-tasks % per_node) * slots

    def _spread(self, slots: int) -> None:
        """Put slots on any nodes, as a wide task's."""
        for index, name in enumerate(self.names):
            used = min(slots, self.free[index])
            if used:
                self.free[index] -= used
                self.matched.add(name)
                slots -= used
        if slots:
            nodes = -(-slots // self.new_slots)
            self._add(nodes, 0)
            self.free[-1] += nodes * self.new_slots - slots

    def _add(self, nodes: int, free: int) -> None:
        for _ in range(nodes):
            self.new += 1
            self.names.append(f"+{self.new}")
            self.free.append(free)


def pack_waiting_tasks_into_nodes(situation: BalanceSituation, new_slots: int) -> FreeSlotBins:
    """Put all that waits where there is room, on its way, or on new nodes."""
    coming = [node.name for node in situation.nodes if node.state.is_coming]
    ready = [instance for instance in situation.cell.instances if instance.is_usable]
    bins = FreeSlotBins(
        names=[*(instance.host for instance in ready), *coming],
        free=[*(instance.free for instance in ready), *(new_slots for _ in coming)],
        new_slots=new_slots,
        matched=set(),
    )
    for row in startable_waiting_jobs(situation.cell.waiting):
        bins.put(row.shape.slots, row.tasks)
    return bins


def replayed_idle_nodes(situation: BalanceSituation) -> list[str]:
    """Return the ready nodes on which nothing runs, the one that was added last first."""
    busy = {instance.host for instance in situation.cell.instances if instance.running}
    ready = [node.name for node in situation.nodes if node.state is ElasticNodeState.READY]
    return [name for name in reversed(ready) if name not in busy]


def count_replay_figures(situation: BalanceSituation) -> BalanceFigures:
    """Count what these rules look at."""
    waiting = startable_waiting_jobs(situation.cell.waiting)
    return BalanceFigures(
        nodes=len(situation.nodes),
        running=sum(not node.state.is_coming for node in situation.nodes),
        jobs=sum(len(row.jobs) for row in waiting),
        wanted=sum(row.slots for row in waiting),
        free=sum(instance.free for instance in situation.cell.instances),
        slots=sum(instance.total for instance in situation.cell.instances),
        slots_per_node=None,
        waited_s=0.0,
        unchanged_s=None,
    )

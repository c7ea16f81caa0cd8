"""Which nodes waiting tasks would go to, first fit: what the rules that a replay compares share."""

from dataclasses import dataclass

from gridbridge.decisions.elastic.starcluster_counts import able
from gridbridge.model.elastic.balance_plan import BalanceSituation, Figures
from gridbridge.model.elastic.node import NodeState


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
        for place, name in enumerate(self.names):
            fit = min(tasks, self.free[place] // slots)
            if fit:
                self.free[place] -= fit * slots
                self.matched.add(name)
                tasks -= fit
            if not tasks:
                return
        each = self.new_slots // slots
        self._add(-(-tasks // each), self.new_slots - each * slots)
        self.free[-1] += (-tasks % each) * slots

    def _spread(self, slots: int) -> None:
        """Put slots on any nodes, as a wide task's."""
        for place, name in enumerate(self.names):
            taken = min(slots, self.free[place])
            if taken:
                self.free[place] -= taken
                self.matched.add(name)
                slots -= taken
        if slots:
            nodes = -(-slots // self.new_slots)
            self._add(nodes, 0)
            self.free[-1] += nodes * self.new_slots - slots

    def _add(self, nodes: int, left: int) -> None:
        for _ in range(nodes):
            self.new += 1
            self.names.append(f"+{self.new}")
            self.free.append(left)


def packed(seen: BalanceSituation, new_slots: int) -> FreeSlotBins:
    """Put all that waits where there is room, on its way, or on new nodes."""
    coming = [one.name for one in seen.nodes if one.state.is_coming]
    ready = [one for one in seen.cell.instances if one.is_usable]
    bins = FreeSlotBins(
        names=[*(one.host for one in ready), *coming],
        free=[*(one.free for one in ready), *(new_slots for _ in coming)],
        new_slots=new_slots,
        matched=set(),
    )
    for row in able(seen.cell.waiting):
        bins.put(row.shape.slots, row.tasks)
    return bins


def idle_nodes(seen: BalanceSituation) -> list[str]:
    """Return the ready nodes on which nothing runs, the one that was added last first."""
    busy = {one.host for one in seen.cell.instances if one.running}
    ready = [one.name for one in seen.nodes if one.state is NodeState.READY]
    return [name for name in reversed(ready) if name not in busy]


def figures(seen: BalanceSituation) -> Figures:
    """Count what these rules look at."""
    waiting = able(seen.cell.waiting)
    return Figures(
        nodes=len(seen.nodes),
        running=sum(not one.state.is_coming for one in seen.nodes),
        jobs=sum(len(one.jobs) for one in waiting),
        wanted=sum(one.slots for one in waiting),
        free=sum(one.free for one in seen.cell.instances),
        slots=sum(one.total for one in seen.cell.instances),
        slots_per_node=None,
        waited_s=0.0,
        unchanged_s=None,
    )

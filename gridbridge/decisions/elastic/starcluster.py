"""StarCluster's rules: grow when a job waits too long, give idle nodes back late in their hour.

They are those of the StarCluster load balancer guide (Criteria for Adding a Node, Criteria for
Removing a Node, The 45 Minutes Past the Hour Rule). A round either adds or removes.
"""

from dataclasses import replace

from gridbridge.decisions.elastic import starcluster_counts, starcluster_original
from gridbridge.decisions.elastic.demand.free_capacity import closed_everywhere
from gridbridge.decisions.elastic.readiness import counted, is_unready
from gridbridge.decisions.elastic.starcluster_counts import is_stable, takes, why_unable
from gridbridge.decisions.elastic.starcluster_removal import removable
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    Figures,
    RefusalKind,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Balance
from gridbridge.model.elastic.cell import WaitingJobs


def decide(
    situation: BalanceSituation, rules: Balance, *, is_faithful: bool = False
) -> BalancePlan:
    """Return what a round does; the same situation gives the same plan.

    It holds that nodes + add <= max_nodes, and nodes - removed >= min_nodes. With `is_faithful`
    the numbers are StarCluster's own, and the first of these does not hold.
    """
    count = starcluster_original.figures if is_faithful else starcluster_counts.figures
    figures = count(situation, rules.queue)
    if rules.max_nodes and not is_faithful and is_unready(situation):
        hosts, unready = counted(situation)
        counts = replace(figures, hosts=hosts, unready=unready)
        return BalancePlan(
            verdict=DemandVerdict.UNREADY, figures=counts, refused=_unable(situation, rules.queue)
        )
    verdict, nodes = _growth(figures, rules, situation, is_faithful=is_faithful)
    plan = BalancePlan(
        verdict=verdict, figures=figures, add=nodes, refused=_unable(situation, rules.queue)
    )
    if nodes or figures.jobs or verdict in (DemandVerdict.NO_MAXIMUM, DemandVerdict.BELOW_MINIMUM):
        return plan
    return removable(situation, rules, plan, is_faithful=is_faithful)


def _growth(
    figures: Figures, rules: Balance, situation: BalanceSituation, *, is_faithful: bool
) -> tuple[DemandVerdict, int]:
    """Return how many nodes to add, and why so many."""
    if not rules.max_nodes:
        return DemandVerdict.NO_MAXIMUM, 0
    if figures.nodes >= rules.max_nodes:
        return DemandVerdict.FULL, 0
    if not figures.jobs and figures.useful >= rules.min_nodes:
        return DemandVerdict.NONE_IDLE, 0
    if not is_faithful and rules.queue in closed_everywhere(situation):
        return DemandVerdict.CLOSED, 0
    if figures.slots > 0 and not is_stable(figures, rules):
        return DemandVerdict.NOT_STABLE, 0
    if figures.slots_per_node is None:
        return DemandVerdict.SEVERAL_SLOT_COUNTS, 0
    verdict, needed = _need(figures, rules, situation, is_faithful=is_faithful)
    room = rules.max_nodes - (figures.running if is_faithful else figures.nodes)
    return verdict, max(0, min(rules.add_nodes_per_iteration, needed, room))


def _need(
    figures: Figures, rules: Balance, situation: BalanceSituation, *, is_faithful: bool
) -> tuple[DemandVerdict, int]:
    """Return how many nodes are wanted, whatever limits there are."""
    if figures.useful < rules.min_nodes:
        return DemandVerdict.BELOW_MINIMUM, rules.min_nodes - figures.useful
    if figures.slots == 0:
        is_coming = any(node.state.is_coming for node in situation.nodes)
        return (
            (DemandVerdict.ON_THEIR_WAY, 0)
            if is_coming and not is_faithful
            else (DemandVerdict.NO_SLOTS, 1)
        )
    if figures.wanted <= figures.free:
        return DemandVerdict.FITS, 0
    if figures.waited_s <= rules.job_wait_time_s:
        return DemandVerdict.WAITS, 0
    node_slots = figures.slots_per_node or 0
    if not is_faithful and figures.wanted <= figures.free + figures.coming * node_slots:
        return DemandVerdict.FITS_SOON, 0
    return DemandVerdict.WAITS_TOO_LONG, _nodes_for(figures, node_slots, is_faithful=is_faithful)


def _nodes_for(figures: Figures, node_slots: int, *, is_faithful: bool) -> int:
    """Return how many nodes have the slots that are wanted; at least one.

    StarCluster waits until its nodes are up; here those on their way are reckoned with.
    """
    if not node_slots:
        return 1
    if is_faithful:
        return figures.wanted // node_slots
    return max(1, -(-figures.wanted // node_slots) - figures.coming)


def _unable(situation: BalanceSituation, queue: str) -> tuple[UnservedDemand, ...]:
    """Tell which waiting jobs don't make the cluster grow."""
    rows = ((row, _why_unable(row, queue)) for row in situation.cell.waiting)
    return tuple(
        UnservedDemand(job=job, cause=cause) for row, cause in rows if cause for job in row.jobs
    )


def _why_unable(row: WaitingJobs, queue: str) -> RefusalKind | None:
    cause = why_unable(row)
    if cause is None and row.can_start and not takes(queue, row.shape):
        return RefusalKind.OTHER_QUEUE
    return cause

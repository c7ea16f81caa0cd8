"""StarCluster's rules: grow when a job waits too long, give idle nodes back late in their hour.

They are those of the StarCluster load balancer guide (Criteria for Adding a Node, Criteria for
Removing a Node, The 45 Minutes Past the Hour Rule). A round either adds or removes.
"""

from dataclasses import replace

from gridbridge.decisions.elastic import starcluster_counts, starcluster_original
from gridbridge.decisions.elastic.demand.free_capacity import queues_closed_everywhere
from gridbridge.decisions.elastic.readiness import are_too_many_hosts_unready, count_unready_hosts
from gridbridge.decisions.elastic.starcluster_counts import (
    is_queue_requested,
    is_stabilization_over,
    why_jobs_cannot_start,
)
from gridbridge.decisions.elastic.starcluster_removal import plan_starcluster_removal
from gridbridge.model.elastic.balance_plan import (
    BalanceFigures,
    BalancePlan,
    BalanceRefusal,
    BalanceRefusalCause,
    BalanceSituation,
    BalanceVerdict,
)
from gridbridge.model.elastic.balance_sections import BalanceSection
from gridbridge.model.elastic.cell import WaitingJobs


def decide_by_starcluster(
    situation: BalanceSituation, rules: BalanceSection, *, is_faithful: bool = False
) -> BalancePlan:
    """Return what a round does; the same situation gives the same plan.

    It holds that nodes + add <= max_nodes, and nodes - removed >= min_nodes. With `is_faithful`
    the numbers are StarCluster's own, and the first of these does not hold.
    """
    count = (
        starcluster_original.count_figures_as_starcluster
        if is_faithful
        else starcluster_counts.count_starcluster_figures
    )
    figures = count(situation, rules.queue)
    if rules.max_nodes and not is_faithful and are_too_many_hosts_unready(situation):
        hosts, unready = count_unready_hosts(situation)
        counts = replace(figures, hosts=hosts, unready=unready)
        return BalancePlan(
            verdict=BalanceVerdict.UNREADY,
            figures=counts,
            refused=_refused_jobs(situation, rules.queue),
        )
    verdict, nodes = _nodes_to_add(figures, rules, situation, is_faithful=is_faithful)
    plan = BalancePlan(
        verdict=verdict, figures=figures, add=nodes, refused=_refused_jobs(situation, rules.queue)
    )
    if (
        nodes
        or figures.jobs
        or verdict in (BalanceVerdict.NO_MAXIMUM, BalanceVerdict.BELOW_MINIMUM)
    ):
        return plan
    return plan_starcluster_removal(situation, rules, plan, is_faithful=is_faithful)


def _nodes_to_add(
    figures: BalanceFigures,
    rules: BalanceSection,
    situation: BalanceSituation,
    *,
    is_faithful: bool,
) -> tuple[BalanceVerdict, int]:
    """Return how many nodes to add, and why so many."""
    if not rules.max_nodes:
        return BalanceVerdict.NO_MAXIMUM, 0
    if figures.nodes >= rules.max_nodes:
        return BalanceVerdict.FULL, 0
    if not figures.jobs and figures.useful >= rules.min_nodes:
        return BalanceVerdict.NONE_IDLE, 0
    if not is_faithful and rules.queue in queues_closed_everywhere(situation):
        return BalanceVerdict.CLOSED, 0
    if figures.slots > 0 and not is_stabilization_over(figures, rules):
        return BalanceVerdict.NOT_STABLE, 0
    if figures.slots_per_node is None:
        return BalanceVerdict.SEVERAL_SLOT_COUNTS, 0
    verdict, needed = _nodes_wanted(figures, rules, situation, is_faithful=is_faithful)
    room = rules.max_nodes - (figures.running if is_faithful else figures.nodes)
    return verdict, max(0, min(rules.add_nodes_per_iteration, needed, room))


def _nodes_wanted(
    figures: BalanceFigures,
    rules: BalanceSection,
    situation: BalanceSituation,
    *,
    is_faithful: bool,
) -> tuple[BalanceVerdict, int]:
    """Return how many nodes are wanted, whatever limits there are."""
    if figures.useful < rules.min_nodes:
        return BalanceVerdict.BELOW_MINIMUM, rules.min_nodes - figures.useful
    if figures.slots == 0:
        is_coming = any(node.state.is_coming for node in situation.nodes)
        return (
            (BalanceVerdict.ON_THEIR_WAY, 0)
            if is_coming and not is_faithful
            else (BalanceVerdict.NO_SLOTS, 1)
        )
    if figures.wanted <= figures.free:
        return BalanceVerdict.FITS, 0
    if figures.waited_s <= rules.job_wait_time_s:
        return BalanceVerdict.WAITS, 0
    node_slots = figures.slots_per_node or 0
    if not is_faithful and figures.wanted <= figures.free + figures.coming * node_slots:
        return BalanceVerdict.FITS_SOON, 0
    return BalanceVerdict.WAITS_TOO_LONG, _nodes_for_slots(
        figures, node_slots, is_faithful=is_faithful
    )


def _nodes_for_slots(figures: BalanceFigures, node_slots: int, *, is_faithful: bool) -> int:
    """Return how many nodes have the slots that are wanted; at least one.

    StarCluster waits until its nodes are up; here those on their way are reckoned with.
    """
    if not node_slots:
        return 1
    if is_faithful:
        return figures.wanted // node_slots
    return max(1, -(-figures.wanted // node_slots) - figures.coming)


def _refused_jobs(situation: BalanceSituation, queue: str) -> tuple[BalanceRefusal, ...]:
    """Tell which waiting jobs don't make the cluster grow."""
    rows = ((row, _refusal_cause_in_queue(row, queue)) for row in situation.cell.waiting)
    return tuple(
        BalanceRefusal(job=job, cause=cause) for row, cause in rows if cause for job in row.jobs
    )


def _refusal_cause_in_queue(row: WaitingJobs, queue: str) -> BalanceRefusalCause | None:
    cause = why_jobs_cannot_start(row)
    if cause is None and row.can_start and not is_queue_requested(queue, row.shape):
        return BalanceRefusalCause.OTHER_QUEUE
    return cause

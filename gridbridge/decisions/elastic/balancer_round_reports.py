"""Describe the plan of a balancer round in one sentence, and compute the figures that are published."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from gridbridge.decisions.elastic import balancer_node_and_job_counts
from gridbridge.decisions.elastic.demand.free_capacity import is_best_effort_or_transfer_queue
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePlanFigures,
    BalancePlanReason,
    BalanceSituation,
    NodeAddOrRemoveRefusal,
)
from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, NodeStateCause
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    PublishedBalancerFigures,
    PublishedNewNodeRefusalCount,
    PublishedNodeCount,
    PublishedNodeHistory,
    PublishedNodeSample,
    PublishedPoolNodeCounters,
    RecentlyEndedTasks,
    minute_since_epoch,
)
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters

USUAL = DemandPolicySection()
MINUTES_S = 120  # times of at least this many seconds are printed in minutes

HINDRANCES = {
    BalancePlanReason.FULL: "at most {most} may exist",
    BalancePlanReason.NO_CAPACITY: "pools had no capacity in the last {retry_s:g} s",
    BalancePlanReason.POOL_FULL: "all pools have their largest number of nodes",
    BalancePlanReason.OVER_QUOTA: "the slot quotas of all pools are used up",
    BalancePlanReason.OVER_BUDGET: "another node would exceed the hourly budget",
    BalancePlanReason.OVER_MONTH: "another node would exceed the month's budget",
    BalancePlanReason.ENOUGH_BOOTING: "no more nodes may boot at once",
    BalancePlanReason.NO_SUCH_PLACE: "new nodes would be in no queue or in unknown host groups",
    BalancePlanReason.QUEUE_CLOSED: "the queues of new nodes are closed on all hosts (`qstat -f` shows how)",
    BalancePlanReason.NO_NODE: "no new node could run the other tasks",
}
SENTENCES = {
    **{verdict: f"{{tasks}}{{since}}, {{fit}}, and {why}" for verdict, why in HINDRANCES.items()},
    BalancePlanReason.NO_MAXIMUM: "max_nodes is not set: no node is added or removed",
    BalancePlanReason.FULL: "{nodes} of at most {most} {exist}",
    BalancePlanReason.NOT_STABLE: ("the last change was {unchanged_s:.0f} s ago, less than {stable_s:g} s"),
    BalancePlanReason.BELOW_MINIMUM: "{useful} of at least {least} {useful_exist}{hindrance}",
    BalancePlanReason.NO_SLOTS: "{waiting} and {queue} has no slots, {of_max}",
    BalancePlanReason.CLOSED: (
        "{waiting} and {queue} is closed on all hosts (`qstat -f -q {queue}` shows how), {of_max}"
    ),
    BalancePlanReason.ON_THEIR_WAY: "{waiting} and {queue} has no slots, but nodes are booting or joining",
    BalancePlanReason.WAITS_TOO_LONG: ("{waiting} {waited_min:.0f} min, over {wait_min:g} min, {need}, {of_max}"),
    BalancePlanReason.WAITS: "{waiting} {waited_min:.0f} min, not yet over {wait_min:g} min, {need}",
    BalancePlanReason.FITS: "{waiting}, {need}",
    BalancePlanReason.FITS_SOON: "{waiting} {waited_min:.0f} min, over {wait_min:g} min, {need}{coming}",
    BalancePlanReason.SEVERAL_SLOT_COUNTS: "hosts have different numbers of slots, which StarCluster does not support",
    BalancePlanReason.AT_MINIMUM: "no job waits, {staying} of at least {least} {stay}{leaving}",
    BalancePlanReason.IDLE: "no job waits, {idle} past minute {kill_after} of the hour, {of_max}",
    BalancePlanReason.NONE_IDLE: "no job waits, and no node is to be removed",
    BalancePlanReason.UNREADY: (
        "{unready} of {hosts} hosts are silent or in error, more than 45 % and more than 3 hosts"
    ),
    BalancePlanReason.MORE_WANTED: "{tasks}{since}, {fit}, {of_max}",
    BalancePlanReason.ALL_FIT: "{tasks}, {fit}, {of_max}",
    BalancePlanReason.NO_NEED: "no task waits, {of_max}",
    BalancePlanReason.SPARE: "{tasks}, {idle} and not needed, {of_max}",
    BalancePlanReason.ABOVE_MAXIMUM: ("{tasks}{since}, {fit}, {there} {exist}, and at most {max_nodes} may exist"),
    BalancePlanReason.NOT_YET: "{tasks}{since}, less than {wait_s:g} s, {fit}",
    BalancePlanReason.SOON: (
        "{tasks}{since}, without a new node all tasks end in {backlog}, within {target} plus a boot time of {boot}"
    ),
    BalancePlanReason.ELSEWHERE: (
        "{tasks}{since}, {fit}, queue {elsewhere} would start the other tasks in {elsewhere_time}, a new node in {boot}"
    ),
    BalancePlanReason.MONTH_SPENT: ("{tasks}, and the rest of the month's budget does not pay for {there}"),
    BalancePlanReason.TOO_DEAR: "{tasks}, and {there} {cost} more than the hourly budget",
}


def describe_balance_plan(
    plan: BalancePlan,
    rules: BalanceSection,
    demand: DemandPolicySection = USUAL,
    *,
    is_alone: bool = True,
    ended_machine_id: str = "",
) -> str:
    """Describe the plan of a balancer round in one sentence, with the figures that led to the plan.

    `is_alone` is false if the round has further acts. If the round destroys the master's machine, `ended_machine_id` is
    its id.
    """
    words = _plan_sentence_words(plan, rules, demand)
    why = f", and {HINDRANCES[plan.hindrance].format(**words)}" if plan.hindrance else ""
    verdict = SENTENCES[plan.verdict].format(**words, hindrance=why)
    act = "no node is added or removed" if is_alone else "no other node is added or removed"
    if plan.wake:
        act = f"wake {', '.join(plan.wake)}"
    elif plan.add:
        price = f" at {plan.figures.price:g} an hour each" if plan.figures.price else ""
        act = f"add {plan.add} of pool {plan.pool}{price}" if plan.pool else f"add {plan.add}"
    elif plan.remove:
        act = f"remove {', '.join(plan.remove)}"
    elif ended_machine_id:
        act = f"end the master's machine {ended_machine_id}"
    return verdict if plan.verdict is BalancePlanReason.NO_MAXIMUM else f"{verdict}: {act}"


def explain_no_new_node_or_removal(refused: NodeAddOrRemoveRefusal, rules: BalanceSection) -> str:
    return refused.cause.value.format(
        minute=refused.minute,
        kill_after=rules.kill_after_min,
        min_nodes=refused.wanted or rules.min_nodes,
        name=refused.name,
        wanted=replace_control_characters(refused.wanted),
        has=refused.has,
    )


def _plan_sentence_words(plan: BalancePlan, rules: BalanceSection, demand: DemandPolicySection) -> dict[str, object]:
    figures = plan.figures
    free_are = "is" if figures.free == 1 else "are"
    more = number_with_noun(figures.leaving, "more node is", "more nodes are")
    return {
        "nodes": figures.nodes,
        "there": number_with_noun(figures.nodes, "node"),
        "cost": "costs" if figures.nodes == 1 else "cost",
        "useful": figures.useful_node_count,
        "staying": figures.nodes - figures.leaving,
        "useful_exist": "exists" if figures.useful_node_count == 1 else "exist",
        "stay": "stays" if figures.nodes - figures.leaving == 1 else "stay",
        "leaving": f", {more} leaving" if figures.leaving else "",
        "queue": rules.queue,
        "kill_after": rules.kill_after_min,
        "unchanged_s": figures.unchanged_s or 0.0,
        "waiting": number_with_noun(figures.jobs, "job waits", "jobs wait"),
        "waited_min": figures.waited_s // 60,
        "wait_min": rules.job_wait_time_s / 60,
        "need": f"{number_with_noun(figures.wanted, 'slot is', 'slots are')} wanted and {figures.free} {free_are} free",
        "idle": number_with_noun(len(plan.remove), "node is idle", "nodes are idle"),
        **_words_for_node_limits(figures, rules, demand),
        **_words_for_demand_policy_sentence(figures, demand),
    }


def _words_for_node_limits(
    figures: BalancePlanFigures, rules: BalanceSection, demand: DemandPolicySection
) -> dict[str, object]:
    exist = "exists" if figures.nodes == 1 else "exist"
    most = rules.max_nodes if figures.most is None else figures.most
    least = rules.min_nodes if figures.least is None else figures.least
    return {
        "max_nodes": most,
        "most": number_with_noun(most, "node"),
        "least": number_with_noun(least, "node"),
        "stable_s": rules.stabilization_s if figures.most is None else demand.grow_pause_s,
        "of_max": f"{figures.nodes} of {number_with_noun(most, 'node')} {exist}",
        "exist": exist,
    }


def _words_for_demand_policy_sentence(figures: BalancePlanFigures, demand: DemandPolicySection) -> dict[str, object]:
    tasks, room = figures.tasks, number_with_noun(figures.free, "free slot")
    coming = number_with_noun(figures.coming, "node is on its way", "nodes are on their way")
    on_way = number_with_noun(figures.coming, "node on its way", "nodes on their way")
    fit = f"{number_with_noun(figures.fit, 'fits', 'fit')} in {room}" + (f" and {on_way}" if figures.coming else "")
    are_free = number_with_noun(figures.free, "slot is free", "slots are free")
    and_coming = f", and {coming}" if figures.coming else ""
    return {
        "tasks": number_with_noun(tasks, "task waits", "tasks wait") if tasks else "no task waits",
        "since": f" {_format_seconds_or_minutes(figures.waited_s)}" if tasks else "",
        "coming": and_coming,
        "fit": fit if tasks else are_free + and_coming,
        "hosts": figures.hosts,
        "unready": figures.unready,
        "wait_s": demand.wait_s,
        "retry_s": demand.retry_s,
        "target": _format_seconds_or_minutes(demand.target_wait_s),
        "backlog": _format_seconds_or_minutes(figures.backlog_s or 0.0),
        "boot": _format_seconds_or_minutes(figures.boot_s),
        "elsewhere": figures.elsewhere,
        "elsewhere_time": _format_seconds_or_minutes(figures.elsewhere_s),
    }


def _format_seconds_or_minutes(time_s: float) -> str:
    return f"{time_s:.0f} s" if time_s < MINUTES_S else f"{time_s / 60:.0f} min"


LOST = (NodeStateCause.VANISHED, NodeStateCause.SILENT)
GIVEN_BACK = (ElasticNodeState.READY, ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundNodeChanges:
    took_s: float = 0.0
    sentence: str = ""
    is_acting: bool = False
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


def count_node_changes_by_pool(
    changes: Iterable[tuple[BalancerOwnedNode | None, BalancerOwnedNode]], so_far: BalancerRoundNodeChanges
) -> BalancerRoundNodeChanges:
    """Add the numbers of added, removed and failed nodes of each pool to a round's figures.

    A change is the node before the round (None: new node) and after it. A node counts as added when it is ready,
    as removed when its machine is deleted, and as failed once.
    """
    added, removed, failed = Counter[str](), Counter[str](), Counter[str]()
    for before, node in changes:
        was = before.state if before else None
        added[node.pool] += node.state is ElasticNodeState.READY and was is ElasticNodeState.JOINING
        is_gone = node.state is ElasticNodeState.GONE and node.cause is not NodeStateCause.VANISHED
        removed[node.pool] += is_gone and was in GIVEN_BACK
        is_new_cause = before is None or before.cause is not node.cause
        failed[node.pool] += is_new_cause and (node.cause.is_boot_failure or node.cause in LOST)
    return replace(so_far, added=+added, removed=+removed, failed=+failed)


def balancer_figures_if_cell_observed(
    before: PublishedBalancerFigures | None,
    cluster: str,
    situation: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceRoundStatistics,
    outcome: BalancerRoundNodeChanges,
) -> PublishedBalancerFigures:
    last, figures = _last_published_or_new_figures(before, cluster, situation.now), plan.figures
    nodes = Counter((node.pool, node.state.value) for node in situation.nodes)
    refused = Counter(refusal.cause.name.lower() for refusal in plan.refused if refusal.job)
    return replace(
        last,
        at=situation.now,
        seen_at=situation.now,
        took_s=outcome.took_s,
        trouble="",
        sentence=outcome.sentence,
        is_acting=outcome.is_acting,
        rounds=last.rounds + 1,
        statistics=numbers,
        wanted_slots=figures.wanted,
        free_slots=figures.free,
        longest_wait_s=figures.waited_s,
        min_nodes=figures.least if figures.least is not None else outcome.min_nodes,
        max_nodes=figures.most if figures.most is not None else outcome.max_nodes,
        cost_hour=outcome.cost_hour,
        cost_month=situation.spent,
        nodes=tuple(
            PublishedNodeCount(pool=pool, state=state, nodes=nodes[pool, state]) for pool, state in sorted(nodes)
        ),
        pools=_add_node_changes_to_pool_counters(last, outcome),
        refused=tuple(PublishedNewNodeRefusalCount(cause=cause, jobs=refused[cause]) for cause in sorted(refused)),
    )


def balancer_figures_if_cell_unobserved(
    before: PublishedBalancerFigures | None, cluster: str, now: datetime, trouble: str
) -> PublishedBalancerFigures:
    """Return the figures to publish after a round without a readable cell, with the last known hosts."""
    last = _last_published_or_new_figures(before, cluster, now)
    return replace(
        last, at=now, took_s=0.0, trouble=trouble, rounds=last.rounds + 1, blind_rounds=last.blind_rounds + 1
    )


def _last_published_or_new_figures(
    before: PublishedBalancerFigures | None, cluster: str, now: datetime
) -> PublishedBalancerFigures:
    if before and before.cluster == cluster:
        return before
    return PublishedBalancerFigures(cluster=cluster, at=now)


def _add_node_changes_to_pool_counters(
    last: PublishedBalancerFigures, outcome: BalancerRoundNodeChanges
) -> tuple[PublishedPoolNodeCounters, ...]:
    before = {pool.pool: pool for pool in last.pools}
    names = sorted({*before, *outcome.added, *outcome.removed, *outcome.failed})
    pools = [before.get(name, PublishedPoolNodeCounters(pool=name)) for name in names]
    return tuple(
        PublishedPoolNodeCounters(
            pool=pool.pool,
            added=pool.added + outcome.added.get(pool.pool, 0),
            removed=pool.removed + outcome.removed.get(pool.pool, 0),
            failed=pool.failed + outcome.failed.get(pool.pool, 0),
        )
        for pool in pools
    )


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SAMPLE_INTERVAL, SAMPLES_KEPT = timedelta(minutes=30), timedelta(days=7)


def extend_node_history(before: PublishedNodeHistory | None, figures: PublishedBalancerFigures) -> PublishedNodeHistory:
    """Add the figures of a round to the history, if the round could read the whole cell."""
    history = before if before and before.cluster == figures.cluster else PublishedNodeHistory(cluster=figures.cluster)
    if figures.statistics is None or figures.seen_at != figures.at:
        return history
    begin = figures.at - (figures.at - EPOCH) % SAMPLE_INTERVAL
    in_cluster = (pool.nodes for pool in figures.nodes if ElasticNodeState(pool.state).is_in_cluster_or_coming)
    hosts, nodes, queued = figures.statistics.hosts, sum(in_cluster), figures.statistics.queued
    for same in (sample for sample in history.samples if sample.begin == begin):
        hosts, nodes, queued = max(hosts, same.hosts), max(nodes, same.nodes), max(queued, same.queued)
    kept = (sample for sample in history.samples if begin - SAMPLES_KEPT < sample.begin < begin)
    newest = PublishedNodeSample(begin=begin, hosts=hosts, nodes=nodes, queued=queued)
    return replace(history, samples=(*kept, newest))


LOOKBACK = timedelta(minutes=180)


def count_balancer_round_figures(
    situation: BalanceSituation, ends: RecentlyEndedTasks, queue: str, lookback: timedelta = LOOKBACK
) -> BalanceRoundStatistics:
    """Count a round's hosts, tasks and slots; mean times cover the tasks that ended within `lookback`.

    Best-effort and transferred tasks do not count as running. A parallel task counts on each host, as in qstat.
    """
    first, last = minute_since_epoch(situation.now - lookback), minute_since_epoch(situation.now)
    lately = [ended for ended in ends.minutes if first < ended.minute <= last]
    tasks = sum(minute.tasks for minute in lately)
    loads = [host.load for host in situation.cell.hosts if host.load is not None]
    return BalanceRoundStatistics(
        at=situation.now,
        hosts=len(situation.cell.hosts),
        running=sum(
            len(instance.running)
            for instance in situation.cell.instances
            if not is_best_effort_or_transfer_queue(instance.queue, situation, instance.host)
        ),
        queued=sum(row.tasks for row in balancer_node_and_job_counts.startable_waiting_jobs(situation.cell.waiting)),
        slots=balancer_node_and_job_counts.count_slots_and_startable_tasks(situation, queue).slots,
        duration_s=_mean_seconds_per_task(sum(minute.run_s for minute in lately), tasks),
        wait_s=_mean_seconds_per_task(sum(minute.wait_s for minute in lately), tasks),
        load=sum(loads) / len(loads) if loads else 0.0,
    )


def _mean_seconds_per_task(total_s: float, tasks: int) -> int:
    return round(total_s / tasks) if tasks else 0

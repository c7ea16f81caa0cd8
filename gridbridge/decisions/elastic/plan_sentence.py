"""A plan in words."""

from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    DemandVerdict,
    Figures,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Balance, Demand
from gridbridge.model.status_report import count, printable

USUAL = Demand()
MINUTES_S = 120  # so long a time is told in minutes

HINDRANCES = {
    DemandVerdict.FULL: "at most {max_nodes} may be",
    DemandVerdict.NO_CAPACITY: "and pools had no capacity in the last {retry_s:g} s",
    DemandVerdict.POOL_FULL: "and pools have as many nodes as they may",
    DemandVerdict.OVER_QUOTA: "and the quota of pools is used up",
    DemandVerdict.OVER_BUDGET: "and another node would be over the budget of an hour",
    DemandVerdict.OVER_MONTH: "and another node would be over the month's budget",
    DemandVerdict.ENOUGH_BOOTING: "and no more nodes may be on their way",
    DemandVerdict.NO_SUCH_PLACE: (
        "and nodes of pools would be in no queue or in unknown host groups"
    ),
    DemandVerdict.QUEUE_CLOSED: (
        "and the queues of pools are closed on all hosts (`qstat -f` shows how)"
    ),
    DemandVerdict.NO_NODE: "and no new node could run the others",
}
SENTENCES = {
    **{verdict: f"{{tasks}}{{since}}, {{fit}}, {why}" for verdict, why in HINDRANCES.items()},
    DemandVerdict.NO_MAXIMUM: "max_nodes is not set: nothing is added or removed",
    DemandVerdict.FULL: "{nodes} of at most {most}",
    DemandVerdict.NOT_STABLE: (
        "the last change was {unchanged_s:.0f} s ago, less than {stable_s:g} s"
    ),
    DemandVerdict.BELOW_MINIMUM: "{useful} of at least {least}{hindrance}",
    DemandVerdict.NO_SLOTS: "{waiting} and {queue} has no slots, {of_max}",
    DemandVerdict.CLOSED: (
        "{waiting} and {queue} is closed on all hosts (`qstat -f -q {queue}` shows how), {of_max}"
    ),
    DemandVerdict.ON_THEIR_WAY: "{waiting} and {queue} has no slots, but nodes are on their way",
    DemandVerdict.WAITS_TOO_LONG: "{waiting} {waited_min:.0f} min > {wait_min:g}, {need}, {of_max}",
    DemandVerdict.WAITS: "{waiting} {waited_min:.0f} min, not over {wait_min:g} yet, {need}",
    DemandVerdict.FITS: "{waiting}, {need}",
    DemandVerdict.FITS_SOON: "{waiting} {waited_min:.0f} min > {wait_min:g}, {need}{coming}",
    DemandVerdict.SEVERAL_SLOT_COUNTS: (
        "hosts have several slot counts, with which StarCluster ends"
    ),
    DemandVerdict.AT_MINIMUM: "no job waits, {staying} of at least {least}{leaving}",
    DemandVerdict.IDLE: "no job waits, {idle} past minute {kill_after} of the hour, {of_max}",
    DemandVerdict.NONE_IDLE: "no job waits, and no node is to be removed",
    DemandVerdict.UNREADY: (
        "{unready} of {hosts} hosts are silent or in error, more than 45 % and than 3"
    ),
    DemandVerdict.MORE_WANTED: "{tasks}{since}, {fit}, {of_max}",
    DemandVerdict.ALL_FIT: "{tasks}, {fit}, {of_max}",
    DemandVerdict.NO_NEED: "no task waits, {of_max}",
    DemandVerdict.SPARE: "{tasks}, {idle} and not needed, {of_max}",
    DemandVerdict.ABOVE_MAXIMUM: "{tasks}{since}, {fit}, {there} where at most {max_nodes} may be",
    DemandVerdict.NOT_YET: "{tasks}{since}, not {wait_s:g} s yet, {fit}",
    DemandVerdict.SOON: (
        "{tasks}{since}, without a new node all is done in {backlog},"
        " at most {target} and a boot of {boot}"
    ),
    DemandVerdict.ELSEWHERE: (
        "{tasks}{since}, {fit},"
        " queue {elsewhere} would start the others in {elsewhere_time}, a new node in {boot}"
    ),
    DemandVerdict.MONTH_SPENT: (
        "{tasks}, and what is left of the month's budget does not pay for {there}"
    ),
    DemandVerdict.TOO_DEAR: "{tasks}, and {there} {cost} more at this hour than may be spent",
}


def sentence(
    plan: BalancePlan,
    rules: Balance,
    demand: Demand = USUAL,
    *,
    is_alone: bool = True,
    ended: str = "",
) -> str:
    """Say in one sentence what a plan does, with the numbers that led to it.

    With `is_alone=False` the round does other things, too, and a plan without acts says `nothing
    more is done`. `ended` is the master's machine, if the round ends it.
    """
    words = _words(plan, rules, demand)
    why = f", {HINDRANCES[plan.hindrance].format(**words)}" if plan.hindrance else ""
    verdict = SENTENCES[plan.verdict].format(**words, hindrance=why)
    act = "nothing is done" if is_alone else "nothing more is done"
    if plan.wake:
        act = f"wake {', '.join(plan.wake)}"
    elif plan.add:
        act = f"add {plan.add}{_of_pool(plan)}"
    elif plan.remove:
        act = f"remove {', '.join(plan.remove)}"
    elif ended:
        act = f"end the master's machine {ended}"
    return verdict if plan.verdict is DemandVerdict.NO_MAXIMUM else f"{verdict}: {act}"


def reason(refused: UnservedDemand, rules: Balance) -> str:
    """Say why nothing is done about a job or a host, in one line; its owner wrote what it wants."""
    return refused.cause.value.format(
        minute=refused.minute,
        kill_after=rules.kill_after_min,
        min_nodes=refused.wanted or rules.min_nodes,
        name=refused.name,
        wanted=printable(refused.wanted),
        has=refused.has,
    )


def _of_pool(plan: BalancePlan) -> str:
    if not plan.pool:
        return ""
    price = f" at {plan.figures.price:g} an hour each" if plan.figures.price else ""
    return f" of pool {plan.pool}{price}"


def _words(plan: BalancePlan, rules: Balance, demand: Demand) -> dict[str, object]:
    figures = plan.figures
    jobs, idle = figures.jobs, len(plan.remove)
    more = count(figures.leaving, "more goes", "more go")
    return {
        "nodes": figures.nodes,
        "there": count(figures.nodes, "node"),
        "cost": "costs" if figures.nodes == 1 else "cost",
        "useful": figures.useful,
        "staying": figures.nodes - figures.leaving,
        "leaving": f", {more} already" if figures.leaving else "",
        "queue": rules.queue,
        "kill_after": rules.kill_after_min,
        "unchanged_s": figures.unchanged_s or 0.0,
        "waiting": count(jobs, "job waits", "jobs wait"),
        "waited_min": figures.waited_s // 60,
        "wait_min": rules.job_wait_time_s / 60,
        "need": f"{count(figures.wanted, 'slot')} wanted and {figures.free} free",
        "idle": f"{count(idle, 'node')} idle",
        **_limits(figures, rules, demand),
        **_of_demand(figures, demand),
    }


def _limits(figures: Figures, rules: Balance, demand: Demand) -> dict[str, object]:
    """Return the limits that hold now: by policy demand they may be others at each hour."""
    is_by_hour = figures.most is not None
    most = rules.max_nodes if figures.most is None else figures.most
    least = rules.min_nodes if figures.least is None else figures.least
    return {
        "max_nodes": most,
        "most": count(most, "node"),
        "least": count(least, "node"),
        "stable_s": demand.grow_pause_s if is_by_hour else rules.stabilization_s,
        "of_max": f"{figures.nodes} of {count(most, 'node')}",
    }


def _of_demand(figures: Figures, demand: Demand) -> dict[str, object]:
    """Return the words of policy demand."""
    tasks, room = figures.tasks, f"{count(figures.free, 'free slot')}"
    on_way = count(figures.coming, "node on its way", "nodes on their way")
    coming = f" and {on_way}" if figures.coming else ""
    waits = "no task waits" if not tasks else count(tasks, "task waits", "tasks wait")
    return {
        "tasks": waits,
        "since": f" {_time(figures.waited_s)}" if tasks else "",
        "coming": coming,
        "fit": f"{count(figures.fit, 'fits', 'fit')} in {room}{coming}" if tasks else room + coming,
        "hosts": figures.hosts,
        "unready": figures.unready,
        "wait_s": demand.wait_s,
        "retry_s": demand.retry_s,
        "target": _time(demand.target_wait_s),
        "backlog": _time(figures.backlog_s or 0.0),
        "boot": _time(figures.boot_s),
        "elsewhere": figures.elsewhere,
        "elsewhere_time": _time(figures.elsewhere_s),
    }


def _time(time_s: float) -> str:
    return f"{time_s:.0f} s" if time_s < MINUTES_S else f"{time_s / 60:.0f} min"

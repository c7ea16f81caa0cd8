"""A plan in words."""

from gridbridge.model.elastic.plan import Plan, Refused, Verdict
from gridbridge.model.elastic.sections import Balance

SENTENCES = {
    Verdict.NO_MAXIMUM: "max_nodes is not set: nothing is added or removed",
    Verdict.FULL: "{nodes} of at most {max_nodes} nodes",
    Verdict.NOT_STABLE: "the last change was {unchanged_s:.0f} s ago, less than {stable_s:g} s",
    Verdict.BELOW_MINIMUM: "{nodes} of at least {min_nodes} nodes",
    Verdict.NO_SLOTS: "{waiting} and {queue} has no slots, {of_max}",
    Verdict.ON_THEIR_WAY: "{waiting} and {queue} has no slots, but nodes are on their way",
    Verdict.WAITS_TOO_LONG: "{waiting} {waited_min:.0f} min > {wait_min:g}, {need}, {of_max}",
    Verdict.WAITS: "{waiting} {waited_min:.0f} min, not over {wait_min:g} yet, {need}",
    Verdict.FITS: "{waiting} and {need}",
    Verdict.SEVERAL_SLOT_COUNTS: "hosts have several slot counts, with which StarCluster ends",
    Verdict.AT_MINIMUM: "no job waits, {nodes} of at least {min_nodes} nodes",
    Verdict.IDLE: "no job waits, {idle} past minute {kill_after} of the hour, {of_max}",
    Verdict.NONE_IDLE: "no job waits, and no node is to be removed",
}


def sentence(plan: Plan, rules: Balance) -> str:
    """Say in one sentence what a plan does, with the numbers that led to it."""
    told = SENTENCES[plan.verdict].format(**_words(plan, rules))
    act = "nothing is done"
    if plan.add:
        act = f"add {plan.add}"
    elif plan.remove:
        act = f"remove {', '.join(plan.remove)}"
    return told if plan.verdict is Verdict.NO_MAXIMUM else f"{told}: {act}"


def reason(refused: Refused, rules: Balance) -> str:
    """Say why nothing is done about a job or a host."""
    return refused.cause.value.format(
        minute=refused.minute, kill_after=rules.kill_after_min, min_nodes=rules.min_nodes
    )


def _words(plan: Plan, rules: Balance) -> dict[str, object]:
    figures = plan.figures
    jobs, idle = figures.jobs, len(plan.remove)
    return {
        "nodes": figures.nodes,
        "max_nodes": rules.max_nodes,
        "min_nodes": rules.min_nodes,
        "queue": rules.queue,
        "kill_after": rules.kill_after_min,
        "stable_s": rules.stabilization_s,
        "unchanged_s": figures.unchanged_s or 0.0,
        "waiting": f"{jobs} job waits" if jobs == 1 else f"{jobs} jobs wait",
        "waited_min": figures.waited_s // 60,
        "wait_min": rules.job_wait_time_s / 60,
        "need": f"{_count(figures.wanted, 'slot')} wanted and {figures.free} free",
        "of_max": f"{figures.nodes} of {rules.max_nodes} nodes",
        "idle": f"{_count(idle, 'node')} idle",
    }


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

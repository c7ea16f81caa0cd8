"""What is done to hosts that are to rest or to work again, and how it is said."""

from gridbridge.model.elastic.standby_hosts import (
    STANDBY,
    STANDBY_AUTO,
    HostStandbyStep,
    RestCause,
    RestFacts,
    StandbyPlan,
    StandbyStep,
    tags_of,
)
from gridbridge.model.status_report import count


def deeds(plan: StandbyPlan, facts: RestFacts | None = None) -> tuple[HostStandbyStep, ...]:
    """Return what is to be done, host by host.

    A host that rests is tagged unless it has a standby tag; of one that is woken only `:auto` goes.
    """
    tags = (facts or RestFacts()).tags
    steps = list[HostStandbyStep]()
    for host in plan.off:
        steps.append(HostStandbyStep(host=host, doing=StandbyStep.DRAIN))
        if not any(tag.startswith(STANDBY) for tag in tags_of(host, tags)):
            steps.append(HostStandbyStep(host=host, doing=StandbyStep.TAG, tag=STANDBY_AUTO))
        steps.append(HostStandbyStep(host=host, doing=StandbyStep.STOP))
    for host in plan.on:
        steps += [
            HostStandbyStep(host=host, doing=StandbyStep.START),
            HostStandbyStep(host=host, doing=StandbyStep.OPEN),
        ]
        if STANDBY_AUTO in tags_of(host, tags):
            steps.append(HostStandbyStep(host=host, doing=StandbyStep.UNTAG, tag=STANDBY_AUTO))
    return tuple(steps)


def sentence(plan: StandbyPlan) -> str:
    """Say it with the numbers that led to it."""
    room = (
        f"{count(plan.reserve, 'standard request')} could start on {count(plan.working, 'host')}"
        f" (hosts are woken below {plan.least:g} for each host, and rest above {plan.target:g})"
    )
    asleep = "no host is on standby"
    if plan.untagged:
        lacks = f"{', '.join(plan.untagged)} {'have' if len(plan.untagged) > 1 else 'has'} no tag"
        asleep = f"no host may be woken: {lacks} (`gridbridge balance tag HOST SUFFIX`)"
    again = f"{', '.join(plan.on)} {'have' if len(plan.on) > 1 else 'has'} to work again"
    outcome = {
        RestCause.PLENTY: f"{', '.join(plan.off)} can rest",
        RestCause.LACKING: again,
        RestCause.ASKED: f"tasks wait, and {again}",
        RestCause.BETWEEN: "no host rests and none is woken",
        RestCause.NO_STANDBY: asleep,
        RestCause.FULL: "there may be no more nodes",
        RestCause.NO_MAXIMUM: "max_nodes of [balance] is not set: no host rests and none is woken",
        RestCause.UNREADY: "too many hosts are silent or in error: no host rests and none is woken",
    }[plan.cause]
    bound = f"; what runs on {', '.join(plan.bound)} has no room elsewhere" if plan.bound else ""
    return f"{room}: {outcome}{bound}"

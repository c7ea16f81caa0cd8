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


def deeds(found: StandbyPlan, facts: RestFacts | None = None) -> tuple[HostStandbyStep, ...]:
    """Return what is to be done, host by host.

    A host that rests is tagged unless it has a standby tag; of one that is woken only `:auto` goes.
    """
    tags = (facts or RestFacts()).tags
    done = list[HostStandbyStep]()
    for host in found.off:
        done.append(HostStandbyStep(host=host, doing=StandbyStep.DRAIN))
        if not any(tag.startswith(STANDBY) for tag in tags_of(host, tags)):
            done.append(HostStandbyStep(host=host, doing=StandbyStep.TAG, tag=STANDBY_AUTO))
        done.append(HostStandbyStep(host=host, doing=StandbyStep.STOP))
    for host in found.on:
        done += [
            HostStandbyStep(host=host, doing=StandbyStep.START),
            HostStandbyStep(host=host, doing=StandbyStep.OPEN),
        ]
        if STANDBY_AUTO in tags_of(host, tags):
            done.append(HostStandbyStep(host=host, doing=StandbyStep.UNTAG, tag=STANDBY_AUTO))
    return tuple(done)


def sentence(found: StandbyPlan) -> str:
    """Say it with the numbers that led to it."""
    room = (
        f"{count(found.reserve, 'standard request')} could start on {count(found.working, 'host')}"
        f" (hosts are woken below {found.least:g} for each host, and rest above {found.target:g})"
    )
    asleep = "no host is on standby"
    if found.untagged:
        lacks = f"{', '.join(found.untagged)} {'have' if len(found.untagged) > 1 else 'has'} no tag"
        asleep = f"no host may be woken: {lacks} (`gridbridge balance tag HOST SUFFIX`)"
    again = f"{', '.join(found.on)} {'have' if len(found.on) > 1 else 'has'} to work again"
    what = {
        RestCause.PLENTY: f"{', '.join(found.off)} can rest",
        RestCause.LACKING: again,
        RestCause.ASKED: f"tasks wait, and {again}",
        RestCause.BETWEEN: "no host rests and none is woken",
        RestCause.NO_STANDBY: asleep,
        RestCause.FULL: "there may be no more nodes",
        RestCause.NO_MAXIMUM: "max_nodes of [balance] is not set: no host rests and none is woken",
        RestCause.UNREADY: "too many hosts are silent or in error: no host rests and none is woken",
    }[found.cause]
    bound = f"; what runs on {', '.join(found.bound)} has no room elsewhere" if found.bound else ""
    return f"{room}: {what}{bound}"

"""List the steps that put hosts on standby or wake them, and resolve OAR's power requests."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridbridge.model.elastic.standby_hosts import (
    STANDBY,
    STANDBY_AUTO,
    HostStandbyOrWakeStep,
    HostTagsAndMovableTasks,
    OarPowerRequest,
    OarRequestedPowerState,
    StandbyOrWakePlan,
    StandbyOrWakePlanCause,
    StandbyOrWakeStepKind,
    tags_of_host,
)
from gridbridge.model.status_report import number_with_noun


def standby_and_wake_steps_of_plan(
    plan: StandbyOrWakePlan, facts: HostTagsAndMovableTasks | None = None
) -> tuple[HostStandbyOrWakeStep, ...]:
    """Return the steps of a standby plan, host by host.

    A host that goes on standby gets a standby tag unless it has one. A woken host loses only
    the tag that a squeeze wrote.
    """
    tags = (facts or HostTagsAndMovableTasks()).tags
    steps = list[HostStandbyOrWakeStep]()
    for host in plan.off:
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.DRAIN))
        if not any(tag.startswith(STANDBY) for tag in tags_of_host(host, tags)):
            steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.TAG, tag=STANDBY_AUTO))
        steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.STOP))
    for host in plan.on:
        steps += [
            HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.START),
            HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.OPEN),
        ]
        if STANDBY_AUTO in tags_of_host(host, tags):
            steps.append(HostStandbyOrWakeStep(host=host, doing=StandbyOrWakeStepKind.UNTAG, tag=STANDBY_AUTO))
    return tuple(steps)


def describe_standby_or_wake_plan(plan: StandbyOrWakePlan) -> str:
    """Describe a standby plan in one sentence with its figures."""
    room = (
        f"{number_with_noun(plan.reserve, 'standard request')} could start on"
        f" {number_with_noun(plan.working, 'host')}"
        f" (hosts are woken below {plan.least:g} for each host, and rest above {plan.target:g})"
    )
    asleep = "no host is on standby"
    if plan.untagged:
        lacks = f"{', '.join(plan.untagged)} {'have' if len(plan.untagged) > 1 else 'has'} no tag"
        asleep = f"no host may be woken: {lacks} (`gridbridge balance tag HOST SUFFIX`)"
    again = f"{', '.join(plan.on)} {'have' if len(plan.on) > 1 else 'has'} to work again"
    outcome = {
        StandbyOrWakePlanCause.PLENTY: f"{', '.join(plan.off)} can rest",
        StandbyOrWakePlanCause.LACKING: again,
        StandbyOrWakePlanCause.ASKED: f"tasks wait, and {again}",
        StandbyOrWakePlanCause.BETWEEN: "no host rests and none is woken",
        StandbyOrWakePlanCause.NO_STANDBY: asleep,
        StandbyOrWakePlanCause.FULL: "there may be no more nodes",
        StandbyOrWakePlanCause.NO_MAXIMUM: ("max_nodes of [balance] is not set: no host rests and none is woken"),
        StandbyOrWakePlanCause.UNREADY: ("too many hosts are silent or in error: no host rests and none is woken"),
    }[plan.cause]
    bound = f"; what runs on {', '.join(plan.bound)} has no room elsewhere" if plan.bound else ""
    return f"{room}: {outcome}{bound}"


STALE_S = 3600.0  # an older request is dropped, because OAR repeats its requests


def latest_oar_power_request_by_node(
    notes: Iterable[OarPowerRequest], now_s: float
) -> Mapping[str, OarRequestedPowerState]:
    """Return the latest power request for each node that is not older than an hour."""
    desired = dict[str, OarRequestedPowerState]()
    for note in sorted(notes, key=lambda note: (note.at_s, note.file)):
        if now_s - note.at_s <= STALE_S:
            desired.update(dict.fromkeys(note.hosts, note.wish))
    return desired


def unfinished_oar_power_requests(
    notes: Iterable[OarPowerRequest], unsettled: Mapping[str, OarRequestedPowerState], now_s: float
) -> tuple[OarPowerRequest, ...]:
    """Return the power requests, each with only the nodes not yet in the requested state.

    A node with a later, different request is dropped from the earlier one.
    """
    return tuple(_unsettled(note, unsettled, now_s) for note in notes)


def _unsettled(note: OarPowerRequest, unsettled: Mapping[str, OarRequestedPowerState], now_s: float) -> OarPowerRequest:
    if now_s - note.at_s > STALE_S:
        return replace(note, hosts=())
    hosts = tuple(host for host in note.hosts if unsettled.get(host) is note.wish)
    return replace(note, hosts=hosts)

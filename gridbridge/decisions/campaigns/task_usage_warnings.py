"""Decide from the first ended tasks whether the walltime is too short, or the requested memory too small.

Users can forge the usage of their own tasks, so usage decides only about the campaign of the tasks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import OpenCampaignEventsInCycle, new_campaign_event
from gridbridge.model.campaigns.campaign import CampaignCluster, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster
from gridbridge.model.campaigns.task_resource_usage import (
    MeasuredTaskAttempt,
    TaskMemoryRequest,
    TaskUsageAtCluster,
    parse_memory_requests,
)
from gridbridge.model.grid_engine_amounts import HOUR_S

# largest amount of a campaign, because owners can forge amounts, and integers of the state file have 64 bits
MOST_WRITTEN_KB = 10**18
FEWEST_TASKS = 3  # an event needs this many overruns, because a single task may be an exception
LEAST_SHARE = 0.1  # an event needs this share of the ended attempts
NEAR = 0.9  # a failed task with this share of the requested memory probably lacked memory
FAILURES = frozenset({TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SIGNAL})
COUNTED = FAILURES | {
    TaskAttemptOutcome.SUCCESS,
    TaskAttemptOutcome.WALLTIME,
    TaskAttemptOutcome.RESUBMIT,
    TaskAttemptOutcome.RESUBMIT_LAST,
}
UNITS = (("TB", 1024**3), ("GB", 1024**2), ("MB", 1024))


def is_walltime_too_short(usage: TaskUsageAtCluster) -> bool:
    return usage.overruns >= max(FEWEST_TASKS, LEAST_SHARE * usage.ended)


def is_requested_memory_too_small(usage: TaskUsageAtCluster) -> bool:
    return usage.beyond_memory >= max(FEWEST_TASKS, LEAST_SHARE * usage.ended)


def add_ended_attempts_to_usage(
    usage: TaskUsageAtCluster, attempts: Iterable[TaskAttempt], requests: Sequence[TaskMemoryRequest]
) -> TaskUsageAtCluster:
    for attempt in attempts:
        has_failed = attempt.outcome in FAILURES
        usage = replace(
            usage,
            ended=usage.ended + 1,
            failed=usage.failed + has_failed,
            overruns=usage.overruns + (attempt.outcome is TaskAttemptOutcome.WALLTIME),
            longest_s=max(usage.longest_s, attempt.wallclock_s or 0),
        )
        if attempt.max_rss_kb is not None:
            measured = (attempt.max_rss_kb, attempt.max_vmem_kb or 0, attempt.written_kb or 0)
            usage = _add_measured_memory(usage, *measured, requests, has_failed=has_failed)
    return usage


def _add_measured_memory(
    usage: TaskUsageAtCluster,
    rss_kb: int,
    vmem_kb: int,
    written_kb: int,
    requests: Iterable[TaskMemoryRequest],
    *,
    has_failed: bool,
) -> TaskUsageAtCluster:
    share = NEAR if has_failed else 1.0
    is_beyond = any((vmem_kb if request.is_virtual else rss_kb) > share * request.kb for request in requests)
    return replace(
        usage,
        measured=usage.measured + 1,
        beyond_memory=usage.beyond_memory + is_beyond,
        max_rss_kb=max(usage.max_rss_kb, rss_kb),
        max_vmem_kb=max(usage.max_vmem_kb, vmem_kb),
        written_kb=min(MOST_WRITTEN_KB, usage.written_kb + written_kb),
    )


def update_task_usages(
    situation: CampaignCycleSituation, ended_attempts: Iterable[tuple[TaskAttempt, str]]
) -> tuple[TaskUsageAtCluster, ...]:
    """Return the usages that change by attempts that have ended, or were measured, in this cycle."""
    before = {(usage.campaign, usage.cluster): usage for usage in situation.usages}
    attempts = defaultdict[CampaignCluster, list[TaskAttempt]](list)
    measured = defaultdict[CampaignCluster, list[MeasuredTaskAttempt]](list)
    for attempt, cluster in ended_attempts:
        if attempt.outcome in COUNTED and cluster:
            attempts[attempt.campaign, cluster].append(attempt)
    for reading in situation.measured:
        measured[reading.campaign, reading.cluster].append(reading)
    jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
    changed = []
    for pair in sorted(attempts.keys() | measured.keys()):
        if pair[0] not in jdls and pair not in before:
            continue  # the campaign was purged
        request = jdls[pair[0]].clusters.get(pair[1]) if pair[0] in jdls else None
        requests = parse_memory_requests(request.properties, request.slots) if request else ()
        usage = before.get(pair) or TaskUsageAtCluster(campaign=pair[0], cluster=pair[1])
        usage = add_ended_attempts_to_usage(usage, attempts[pair], requests)
        for reading in measured[pair]:
            amounts = (reading.max_rss_kb, 0, reading.written_kb)
            usage = _add_measured_memory(usage, *amounts, requests, has_failed=reading.has_failed)
        changed.append(usage)
    return tuple(changed)


def update_usage_events(
    book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation, changed: Iterable[TaskUsageAtCluster]
) -> None:
    """Open an event once too many tasks have overrun a request, and keep the event's numbers current.

    An event that its owner has closed is not opened again.
    """
    before = {(usage.campaign, usage.cluster): usage for usage in situation.usages}
    campaigns = {campaign.number: campaign for campaign in situation.campaigns if campaign.state.is_alive}
    codes = {
        CampaignEventCode.WALLTIME_SHORT: (is_walltime_too_short, _describe_walltime_overruns),
        CampaignEventCode.MEMORY_SMALL: (is_requested_memory_too_small, _describe_memory_overruns),
    }
    for usage in changed:
        pair = usage.campaign, usage.cluster
        campaign = campaigns.get(usage.campaign)
        request = campaign.jdl.clusters.get(usage.cluster) if campaign else None
        if request is None:
            continue
        for code, (is_short, describe) in codes.items():
            event, was_short = book.find_event(code, *pair), pair in before and is_short(before[pair])
            if is_short(usage) and (event or not was_short):
                event = event or new_campaign_event(CampaignEventSubject.CAMPAIGN, code, *pair, situation.at)
                why, tasks = describe(usage, request)
                if (why, tasks) != (event.why, event.tasks):
                    book.add_or_replace_event(replace(event, tasks=tasks, why=why, last_at=situation.at))


def _describe_walltime_overruns(usage: TaskUsageAtCluster, request: JdlSettingsAtCluster) -> tuple[str, int]:
    words = f"{usage.overruns} of {usage.ended} attempts ran longer than {_format_duration(request.walltime_s)}"
    return words, usage.overruns


def _describe_memory_overruns(usage: TaskUsageAtCluster, request: JdlSettingsAtCluster) -> tuple[str, int]:
    needs = " and ".join(_describe_peak_memory(usage, memory) for memory in _memory_requests(request))
    return f"{usage.beyond_memory} of {usage.measured} attempts, with up to {needs}", usage.beyond_memory


def _memory_requests(request: JdlSettingsAtCluster) -> tuple[TaskMemoryRequest, ...]:
    return parse_memory_requests(request.properties, request.slots)


def _peak_memory_kb(usage: TaskUsageAtCluster, request: TaskMemoryRequest) -> int:
    return usage.max_vmem_kb if request.is_virtual else usage.max_rss_kb


def _describe_peak_memory(usage: TaskUsageAtCluster, request: TaskMemoryRequest) -> str:
    kind = "virtual memory" if request.is_virtual else "memory"
    peak = format_kb(_peak_memory_kb(usage, request))
    return f"{peak} of {kind} (requested: {request.resource}, {format_kb(request.kb)})"


def warnings_from_earlier_usage(
    usages: Iterable[TaskUsageAtCluster], requests: Mapping[str, JdlSettingsAtCluster]
) -> Iterator[str]:
    """Yield a warning for each cluster where an earlier campaign's usage exceeds a new campaign's requests."""
    for usage in usages:
        request = requests.get(usage.cluster)
        if request is None or not usage.ended:
            continue
        if usage.longest_s > NEAR * request.walltime_s:
            longest, walltime = _format_duration(usage.longest_s), _format_duration(request.walltime_s)
            yield f"{usage.cluster}: a task ran {longest}; the walltime is {walltime}"
        for memory in _memory_requests(request):
            if _peak_memory_kb(usage, memory) > NEAR * memory.kb:
                yield f"{usage.cluster}: a task used {_describe_peak_memory(usage, memory)}"
        if usage.failed >= LEAST_SHARE * usage.ended:
            yield f"{usage.cluster}: {usage.failed} of {usage.ended} attempts failed"


def format_kb(kb: float) -> str:
    unit, size = next(((unit, size) for unit, size in UNITS if kb >= size), ("kB", 1))
    return f"{kb / size:.3g} {unit}"


def _format_duration(seconds: int) -> str:
    return f"{seconds // HOUR_S}:{seconds // 60 % 60:02}:{seconds % 60:02}"

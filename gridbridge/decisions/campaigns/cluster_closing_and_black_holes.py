"""Decide which clusters are closed to a campaign, because they fail, can't start tasks, or are black holes."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from statistics import median

from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignCluster,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignFailuresSection
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, PlannedCampaignTaskSend
from gridbridge.model.campaigns.campaign_events import (
    BLACKLISTING_EVENTS,
    PAUSING_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)


class OpenCampaignEventsInCycle:
    def __init__(self, events: Iterable[CampaignEvent]) -> None:
        self._now = {event.identity: event for event in events}
        self._changed: dict[tuple[CampaignEventCode, int, str, int | None], CampaignEvent] = {}

    @property
    def changed_events(self) -> tuple[CampaignEvent, ...]:
        return tuple(self._changed.values())

    @property
    def open_events(self) -> tuple[CampaignEvent, ...]:
        return tuple(self._now.values())

    def find_event(self, code: CampaignEventCode, campaign: int, cluster: str = "") -> CampaignEvent | None:
        """Return the open event with this code, campaign and cluster that has no exit status."""
        return self._now.get((code, campaign, cluster, None))

    def find_equal_event(self, event: CampaignEvent) -> CampaignEvent | None:
        """Return the open event with the same code, campaign, cluster and exit status as an event."""
        return self._now.get(event.identity)

    def add_or_replace_event(self, event: CampaignEvent) -> None:
        """Add or replace an open event; an event with `closed_at` is removed from the open events."""
        self._now[event.identity] = self._changed[event.identity] = event
        if event.closed_at:
            del self._now[event.identity]

    def close_event(self, event: CampaignEvent | None, at: datetime) -> None:
        """Close an event at time `at`; do nothing for None."""
        if event:
            self.add_or_replace_event(replace(event, closed_at=at))


MAX_DOUBLINGS = 32


class ClusterClosureOrProbe(Enum):
    """Whether a closed cluster gets no task of a campaign, or one task as a probe."""

    CLOSED = "closed"
    PROBE = "probe"


def derive_cluster_blacklist(
    events: Iterable[CampaignEvent], at: datetime, policy: CampaignFailuresSection
) -> dict[CampaignCluster, ClusterClosureOrProbe]:
    """Return the pairs of campaign and cluster that events close, and which of them get a probe now."""
    entries: dict[CampaignCluster, ClusterClosureOrProbe] = {}
    for event in events:
        pair = event.campaign, event.cluster
        if event.code in BLACKLISTING_EVENTS and not event.closed_at:
            is_probe = is_cluster_probe_due(event, at, policy) and entries.get(pair) is not ClusterClosureOrProbe.CLOSED
            entries[pair] = ClusterClosureOrProbe.PROBE if is_probe else ClusterClosureOrProbe.CLOSED
    return entries


def is_cluster_probe_due(event: CampaignEvent, at: datetime, policy: CampaignFailuresSection) -> bool:
    """Say whether an event's pause is over; a pause above `probe_max_s`, from a wrong clock, is ignored."""
    longest = timedelta(seconds=policy.probe_max_s)
    return event.until is not None and not at < event.until <= at + longest


def hide_blacklisted_clusters(
    situation: CampaignCycleSituation, barred: Mapping[CampaignCluster, ClusterClosureOrProbe]
) -> CampaignCycleSituation:
    def without_closed_clusters(campaign: Campaign) -> Campaign:
        clusters = {
            name: request
            for name, request in campaign.jdl.clusters.items()
            if barred.get((campaign.number, name)) is not ClusterClosureOrProbe.CLOSED
        }
        return replace(campaign, jdl=replace(campaign.jdl, clusters=clusters))

    return replace(situation, campaigns=tuple(map(without_closed_clusters, situation.campaigns)))


def record_cluster_probes(
    sends: Iterable[PlannedCampaignTaskSend],
    situation: CampaignCycleSituation,
    barred: Mapping[CampaignCluster, ClusterClosureOrProbe],
    book: OpenCampaignEventsInCycle,
) -> None:
    """Record which sent tasks are probes of a cluster, so that the next probe has to wait."""
    code = CampaignEventCode.SETUP_ERROR
    for send in sends:
        pair = send.campaign, send.cluster
        if barred.get(pair) is ClusterClosureOrProbe.PROBE and (event := book.find_event(code, *pair)):
            book.add_or_replace_event(
                repeat_event_with_longer_pause(event, code, pair, situation.at, situation.failures)
            )


def repeat_event_with_longer_pause(
    earlier: CampaignEvent | None,
    code: CampaignEventCode,
    pair: CampaignCluster,
    at: datetime,
    policy: CampaignFailuresSection,
) -> CampaignEvent:
    """Return the event of a repeated failure; the pause before the next probe doubles if the last pause is over."""
    if earlier and earlier.until and not is_cluster_probe_due(earlier, at, policy):
        return replace(earlier, last_at=at)
    event = earlier or new_campaign_event(CampaignEventSubject.CAMPAIGN, code, *pair, at)
    probes = event.probes + 1 if earlier else 0
    pause_s = min(policy.probe_s * 2 ** min(probes, MAX_DOUBLINGS), policy.probe_max_s)
    return replace(event, probes=probes, last_at=at, until=at + timedelta(seconds=pause_s))


def new_campaign_event(
    kind: CampaignEventSubject, code: CampaignEventCode, campaign: int, cluster: str, at: datetime
) -> CampaignEvent:
    return CampaignEvent(kind=kind, code=code, campaign=campaign, cluster=cluster, opened_at=at, last_at=at)


def may_retry_array_submission(
    array: CampaignArray, events: Iterable[CampaignEvent], at: datetime, policy: CampaignFailuresSection
) -> bool:
    """Say whether an interrupted submission is retried now; a held array is always released."""
    pauses = (
        event.until and not is_cluster_probe_due(event, at, policy)
        for event in events
        if event.code in PAUSING_EVENTS and (event.campaign, event.cluster) == (array.campaign, array.cluster)
    )
    return array.state is not ArraySubmissionState.INTENDED or not any(pauses)


MIN_SUCCESSES = 5  # before this many successes of the campaign no cluster counts as a black hole
MIN_SUCCESSES_ELSEWHERE = 3  # a comparison needs this many successes at the campaign's other clusters together
MAX_SHARE_OF_MEDIAN = 0.1  # a black hole's median run time is below this share of the median at other clusters
MAX_BLACK_HOLE_S = 5.0
TIME_RESOLUTION_S = 0.5  # half a second, because run times are rounded to whole seconds
KEPT_DURATIONS = 32


def find_black_hole_clusters(records: Iterable[CampaignSuccessAtCluster]) -> frozenset[tuple[int, str]]:
    """Return the pairs of campaign and cluster at which tasks succeed suspiciously fast.

    A full disk may end a program at once with status 0; the cluster then gets ever more tasks.
    """
    of_campaign = defaultdict[int, list[CampaignSuccessAtCluster]](list)
    for record in records:
        of_campaign[record.campaign].append(record)
    return frozenset(
        (record.campaign, record.cluster)
        for of_one in of_campaign.values()
        for record in of_one
        if _is_black_hole(record, of_one)
    )


def _is_black_hole(record: CampaignSuccessAtCluster, of_campaign: Iterable[CampaignSuccessAtCluster]) -> bool:
    if record.is_trusted or len(record.durations_s) < MIN_SUCCESSES:
        return False
    usual_s = max(TIME_RESOLUTION_S, median(record.durations_s))
    if usual_s >= MAX_BLACK_HOLE_S:
        return False
    elsewhere = [seconds for other in of_campaign if other is not record for seconds in other.durations_s]
    return len(elsewhere) >= MIN_SUCCESSES_ELSEWHERE and usual_s < MAX_SHARE_OF_MEDIAN * median(elsewhere)


def count_starved_tasks_by_cluster(situation: CampaignCycleSituation) -> Mapping[CampaignCluster, int]:
    """Count the tasks that waited in vain, for each cluster where no task of the campaign runs."""
    running = {view.campaign_and_cluster for view in situation.there if view.listed > view.waiting}
    waited = {(record.campaign, record.cluster): record.wiped_in_row for record in situation.records}
    return {pair: tasks for pair, tasks in waited.items() if tasks and pair not in running}


FAILED_BY_ITSELF = frozenset({TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SIGNAL})
STARTED_OUTCOMES = FAILED_BY_ITSELF | {
    TaskAttemptOutcome.SUCCESS,
    TaskAttemptOutcome.WALLTIME,
    TaskAttemptOutcome.RESUBMIT,
    TaskAttemptOutcome.RESUBMIT_LAST,
    TaskAttemptOutcome.PREEMPTED,
}


def select_arrays_sent_before_outage(situation: CampaignCycleSituation) -> frozenset[tuple[int, int]]:
    """Return the arrays that were sent before the end of their cluster's last outage.

    Their run times seem too long: while its database is down, OAR records no end of a task.
    """
    now_back = (event.cluster for event in situation.events if event.code is CampaignEventCode.GET_JOBS)
    back_at = dict(situation.back_at) | {name: situation.at for name in now_back if name in situation.room}
    sent_at = ((array, back_at.get(array.cluster, array.intended_at)) for array in situation.arrays)
    return frozenset(array.campaign_and_array_number for array, at in sent_at if array.intended_at < at)


def update_success_records(
    records: Iterable[CampaignSuccessAtCluster],
    ended_attempts: Iterable[tuple[TaskAttempt, str]],
    untimed: Container[tuple[int, int]] = (),
) -> tuple[CampaignSuccessAtCluster, ...]:
    """Return the changed success records of ended tasks; run times of arrays in `untimed` are ignored."""
    by_pair = {(record.campaign, record.cluster): record for record in records}
    of = defaultdict[CampaignCluster, list[TaskAttempt]](list)
    for attempt, cluster in ended_attempts:
        of[attempt.campaign, cluster].append(attempt)
    new = {pair: CampaignSuccessAtCluster(campaign=pair[0], cluster=pair[1]) for pair in of}
    by_pair = new | by_pair
    return tuple(_add_attempts_to_success_record(by_pair[pair], attempts, untimed) for pair, attempts in of.items())


def _add_attempts_to_success_record(
    record: CampaignSuccessAtCluster, ended_attempts: Sequence[TaskAttempt], untimed: Container[tuple[int, int]]
) -> CampaignSuccessAtCluster:
    """Add ended attempts; a success resets the count of errors, and a start the count of deleted tasks."""
    outcomes = [attempt.outcome for attempt in ended_attempts]
    is_started = STARTED_OUTCOMES.intersection(outcomes)
    good = [attempt for attempt in ended_attempts if attempt.outcome is TaskAttemptOutcome.SUCCESS]
    hosts = [attempt.host for attempt in ended_attempts if attempt.outcome in FAILED_BY_ITSELF]
    all_hosts = {*hosts, record.error_host} if record.errors_in_row else {*hosts}
    is_row = is_started <= FAILED_BY_ITSELF
    timed = (attempt for attempt in good if (attempt.campaign, attempt.array) not in untimed)
    took = tuple(attempt.wallclock_s for attempt in timed if attempt.wallclock_s is not None)
    return replace(
        record,
        errors_in_row=record.errors_in_row + len(hosts) if is_row else 0,
        error_host=all_hosts.pop() if is_row and len(all_hosts) == 1 else "",
        successes=record.successes + len(good),
        durations_s=(*record.durations_s, *took)[-KEPT_DURATIONS:],
        wiped_in_row=0 if is_started else record.wiped_in_row + outcomes.count(TaskAttemptOutcome.WIPED),
    )

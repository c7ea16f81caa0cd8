"""Which events a cycle opens and closes, and what they keep from being sent.

CiGri blacklists a cluster for a campaign at its first program error (Colombo, scheduler 3.2). Here
one failing task of a thousand stops nothing: several in a row do. What a
cluster may get over by itself is tried again with one task, ever more seldom; program errors and
sinks are the owner's to judge.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.campaigns.failures import conflicting_ends, removed_clusters
from gridbridge.decisions.campaigns.failures.black_hole import KEPT, sinks
from gridbridge.decisions.campaigns.failures.blacklist import (
    Pair,
    bars,
    happened,
    opened_now,
)
from gridbridge.decisions.campaigns.failures.open_events import OpenEvents
from gridbridge.decisions.campaigns.failures.unplaceable_tasks import is_stuck
from gridbridge.model.campaigns.campaign import (
    Attempt,
    CampaignState,
    TaskOutcome,
    clusters_of,
)
from gridbridge.model.campaigns.campaign_events import (
    BARRING,
    ROOTS,
    ClusterSuccessRecord,
    EventCode,
    EventKind,
)
from gridbridge.model.campaigns.cycle_plan import CycleSituation, Retry

WIPED = TaskOutcome.WIPED
BY_ITSELF = frozenset({TaskOutcome.PROGRAM_ERROR, TaskOutcome.SIGNAL})
BEGAN = BY_ITSELF | {
    TaskOutcome.SUCCESS,
    TaskOutcome.WALLTIME,
    TaskOutcome.RESUBMIT,
    TaskOutcome.RESUBMIT_LAST,
    TaskOutcome.PREEMPTED,
}
FORGOTTEN = "it knows nothing any more of what ran there in job {job}"
CODES = {
    TaskOutcome.PROGRAM_ERROR: EventCode.EXIT_ERROR,
    TaskOutcome.SIGNAL: EventCode.EXIT_ERROR,
    TaskOutcome.WALLTIME: EventCode.WALLTIME,
    TaskOutcome.CANCELLED: EventCode.FRAG,
    TaskOutcome.SITE_FAULT: EventCode.SITE_FAULT,
    TaskOutcome.PREEMPTED: EventCode.PREEMPTED,
    TaskOutcome.SETUP_ERROR: EventCode.NOT_STARTED,
    TaskOutcome.RESUBMIT: EventCode.RESUBMIT,
    TaskOutcome.RESUBMIT_LAST: EventCode.RESUBMIT,
}


def note(
    situation: CycleSituation,
    again: Iterable[Retry],
    finished: Iterable[int],
    book: OpenEvents | None = None,
) -> tuple[OpenEvents, tuple[ClusterSuccessRecord, ...]]:
    """Return the events as they are from now on, and how campaigns fared that fared otherwise.

    A book that is given has what was noted already.
    """
    book = book or OpenEvents(situation.events)
    where = clusters_of(situation.arrays)
    alive = {
        campaign.number
        for campaign in situation.campaigns
        if campaign.state is not CampaignState.CANCELLED
    }
    ended = [
        (attempt, where.get((attempt.campaign, attempt.array), ""))
        for attempt in situation.ended
        if attempt.campaign in alive
    ]
    _note_clusters(book, situation)
    removed_clusters.note(book, situation)
    conflicting_ends.note(book, situation)
    note_tasks(book, ended, {(retry.campaign, retry.task) for retry in again}, situation.at)
    _note_starts(book, ended, situation)
    records = recorded(situation.records, ended, upset(situation))
    all_records = {
        (record.campaign, record.cluster): record for record in (*situation.records, *records)
    }
    _note_records(book, tuple(all_records.values()), situation)
    _note_campaigns(book, situation, frozenset(finished))
    return book, records


def _note_clusters(book: OpenEvents, situation: CycleSituation) -> None:
    """Tell of a cluster that gives no answer, until it gives one."""
    for name in sorted(situation.asked):
        event = book.find(EventCode.GET_JOBS, 0, name)
        if name in situation.room:
            book.close(event, situation.at)
        elif not event:
            event = opened_now(EventKind.CLUSTER, EventCode.GET_JOBS, 0, name, situation.at)
            book.put(replace(event, why=situation.silent.get(name, "")))


def note_tasks(
    book: OpenEvents,
    ended: Iterable[tuple[Attempt, str]],
    again: set[tuple[int, int]],
    at: datetime,
) -> None:
    """Tell of tasks that failed for good, together of those that did so alike."""
    for attempt, cluster in ended:
        if attempt.outcome not in CODES or (attempt.campaign, attempt.task) in again:
            continue
        fresh = replace(
            opened_now(EventKind.TASK, CODES[attempt.outcome], attempt.campaign, cluster, at),
            exit_status=attempt.exit_status,
            first_task=attempt.task,
            why=FORGOTTEN.format(job=attempt.forgotten_job) if attempt.forgotten_job else "",
        )
        event = book.equal_to(fresh) or fresh
        book.put(replace(event, tasks=event.tasks + 1, last_at=at))


def _note_starts(
    book: OpenEvents, ended: Iterable[tuple[Attempt, str]], situation: CycleSituation
) -> None:
    """Close a cluster that could not start tasks, until one that was sent later began."""
    sent_at = {(array.campaign, array.number): array.intended_at for array in situation.arrays}
    for attempt, cluster in ended:
        open_event = book.find(EventCode.SETUP_ERROR, attempt.campaign, cluster)
        if attempt.outcome is TaskOutcome.SETUP_ERROR:
            event = open_event or happened(
                None,
                EventCode.SETUP_ERROR,
                (attempt.campaign, cluster),
                situation.at,
                situation.failures,
            )
            first = attempt.task if event.first_task is None else event.first_task
            book.put(replace(event, tasks=event.tasks + 1, first_task=first, last_at=situation.at))
        elif (
            open_event
            and attempt.outcome in BEGAN
            and sent_at[attempt.campaign, attempt.array] > open_event.opened_at
        ):
            book.close(open_event, situation.at)


def upset(situation: CycleSituation) -> frozenset[tuple[int, int]]:
    """Return the arrays that were sent before their cluster last came back: by campaign, number.

    OAR notes a task's end when its database is back, so that one second looks like ten minutes,
    and a cluster that was there all the time would be a sink beside it.
    """
    now_back = (event.cluster for event in situation.events if event.code is EventCode.GET_JOBS)
    back_at = dict(situation.back_at) | {
        name: situation.at for name in now_back if name in situation.room
    }
    return frozenset(
        (array.campaign, array.number)
        for array in situation.arrays
        if array.cluster in back_at and array.intended_at < back_at[array.cluster]
    )


def recorded(
    records: Iterable[ClusterSuccessRecord],
    ended: Iterable[tuple[Attempt, str]],
    untimed: Container[tuple[int, int]] = (),
) -> tuple[ClusterSuccessRecord, ...]:
    """Return what changes of how campaigns fared, whatever order the ends came in.

    How long the tasks of untimed arrays took counts for nothing.
    """
    by_pair = {(record.campaign, record.cluster): record for record in records}
    of: dict[Pair, list[Attempt]] = {}
    for attempt, cluster in ended:
        of.setdefault((attempt.campaign, cluster), []).append(attempt)
    return tuple(
        _counted(
            by_pair.get(pair) or ClusterSuccessRecord(campaign=pair[0], cluster=pair[1]),
            attempts,
            untimed,
        )
        for pair, attempts in of.items()
    )


def _counted(
    record: ClusterSuccessRecord, ended: Sequence[Attempt], untimed: Container[tuple[int, int]]
) -> ClusterSuccessRecord:
    """Count ends; any task that went well breaks the row, and any that began that of wiped ones."""
    outcomes = [attempt.outcome for attempt in ended]
    wiped = 0 if BEGAN.intersection(outcomes) else record.wiped_in_row + outcomes.count(WIPED)
    good = [attempt for attempt in ended if attempt.outcome is TaskOutcome.SUCCESS]
    hosts = [attempt.host for attempt in ended if attempt.outcome in BY_ITSELF]
    errors = len(hosts)
    is_row = all(outcome in BY_ITSELF or outcome not in BEGAN for outcome in outcomes)
    timed = (attempt for attempt in good if (attempt.campaign, attempt.array) not in untimed)
    took = tuple(attempt.wallclock_s for attempt in timed if attempt.wallclock_s is not None)
    return replace(
        record,
        errors_in_row=record.errors_in_row + errors if is_row else 0,
        error_host=_only_host(record, hosts) if is_row else "",
        successes=record.successes + len(good),
        durations_s=(*record.durations_s, *took)[-KEPT:],
        wiped_in_row=wiped,
    )


def _only_host(record: ClusterSuccessRecord, hosts: Iterable[str]) -> str:
    all_hosts = {*hosts, record.error_host} if record.errors_in_row else {*hosts}
    return all_hosts.pop() if len(all_hosts) == 1 else ""


def _note_records(
    book: OpenEvents, records: tuple[ClusterSuccessRecord, ...], situation: CycleSituation
) -> None:
    """Close a cluster after program errors in a row, and a sink, until somebody says otherwise."""
    black_holes = sinks(records)
    for record in records:
        pair = record.campaign, record.cluster
        is_bad = record.errors_in_row >= situation.failures.program_errors
        if is_bad and not book.find(EventCode.BLACKLIST, *pair):
            event = opened_now(EventKind.CAMPAIGN, EventCode.BLACKLIST, *pair, situation.at)
            book.put(replace(event, tasks=record.errors_in_row, host=record.error_host))
        if pair in black_holes and not book.find(EventCode.SINK, *pair):
            event = opened_now(EventKind.CAMPAIGN, EventCode.SINK, *pair, situation.at)
            book.put(replace(event, tasks=record.successes))


def _note_campaigns(book: OpenEvents, situation: CycleSituation, finished: frozenset[int]) -> None:
    """Tell of a campaign of which tasks wait that may go nowhere; of an ended one none does."""
    barred = bars(book.open, situation.at, situation.failures)
    lasting = {campaign.number for campaign in situation.campaigns}
    for campaign in situation.campaigns:
        event = book.find(EventCode.NO_CLUSTER, campaign.number)
        stuck = is_stuck(campaign, situation, barred)
        if stuck is False:
            book.close(event, situation.at)
        elif stuck and not event:
            book.put(
                opened_now(
                    EventKind.CAMPAIGN, EventCode.NO_CLUSTER, campaign.number, "", situation.at
                )
            )
    for event in book.open:
        is_barring = event.code in BARRING and event.code is not EventCode.SINK
        if event.campaign in finished and (is_barring or event.code is EventCode.NO_CLUSTER):
            book.close(event, situation.at)
        if event.code in ROOTS and event.campaign not in lasting:
            book.close(event, situation.at)

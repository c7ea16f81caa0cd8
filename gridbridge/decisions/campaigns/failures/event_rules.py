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
    seen: CycleSituation,
    again: Iterable[Retry],
    finished: Iterable[int],
    book: OpenEvents | None = None,
) -> tuple[OpenEvents, tuple[ClusterSuccessRecord, ...]]:
    """Return the events as they are from now on, and how campaigns fared that fared otherwise.

    A book that is given has what was noted already.
    """
    book = book or OpenEvents(seen.events)
    where = clusters_of(seen.arrays)
    alive = {one.number for one in seen.campaigns if one.state is not CampaignState.CANCELLED}
    ended = [
        (one, where.get((one.campaign, one.array), ""))
        for one in seen.ended
        if one.campaign in alive
    ]
    _note_clusters(book, seen)
    removed_clusters.note(book, seen)
    conflicting_ends.note(book, seen)
    note_tasks(book, ended, {(one.campaign, one.task) for one in again}, seen.at)
    _note_starts(book, ended, seen)
    records = recorded(seen.records, ended, upset(seen))
    every = {(one.campaign, one.cluster): one for one in (*seen.records, *records)}
    _note_records(book, tuple(every.values()), seen)
    _note_campaigns(book, seen, frozenset(finished))
    return book, records


def _note_clusters(book: OpenEvents, seen: CycleSituation) -> None:
    """Tell of a cluster that gives no answer, until it gives one."""
    for name in sorted(seen.asked):
        known = book.find(EventCode.GET_JOBS, 0, name)
        if name in seen.room:
            book.close(known, seen.at)
        elif not known:
            event = opened_now(EventKind.CLUSTER, EventCode.GET_JOBS, 0, name, seen.at)
            book.put(replace(event, why=seen.silent.get(name, "")))


def note_tasks(
    book: OpenEvents,
    ended: Iterable[tuple[Attempt, str]],
    again: set[tuple[int, int]],
    at: datetime,
) -> None:
    """Tell of tasks that failed for good, together of those that did so alike."""
    for one, cluster in ended:
        if one.outcome not in CODES or (one.campaign, one.task) in again:
            continue
        fresh = replace(
            opened_now(EventKind.TASK, CODES[one.outcome], one.campaign, cluster, at),
            exit_status=one.exit_status,
            first_task=one.task,
            why=FORGOTTEN.format(job=one.forgotten_job) if one.forgotten_job else "",
        )
        known = book.equal_to(fresh) or fresh
        book.put(replace(known, tasks=known.tasks + 1, last_at=at))


def _note_starts(
    book: OpenEvents, ended: Iterable[tuple[Attempt, str]], seen: CycleSituation
) -> None:
    """Close a cluster that could not start tasks, until one that was sent later began."""
    sent_at = {(one.campaign, one.number): one.intended_at for one in seen.arrays}
    for one, cluster in ended:
        known = book.find(EventCode.SETUP_ERROR, one.campaign, cluster)
        if one.outcome is TaskOutcome.SETUP_ERROR:
            event = known or happened(
                None, EventCode.SETUP_ERROR, (one.campaign, cluster), seen.at, seen.failures
            )
            first = one.task if event.first_task is None else event.first_task
            book.put(replace(event, tasks=event.tasks + 1, first_task=first, last_at=seen.at))
        elif known and one.outcome in BEGAN and sent_at[one.campaign, one.array] > known.opened_at:
            book.close(known, seen.at)


def upset(seen: CycleSituation) -> frozenset[tuple[int, int]]:
    """Return the arrays that were sent before their cluster last came back: by campaign, number.

    OAR notes a task's end when its database is back, so that one second looks like ten minutes,
    and a cluster that was there all the time would be a sink beside it.
    """
    now_back = (one.cluster for one in seen.events if one.code is EventCode.GET_JOBS)
    back_at = dict(seen.back_at) | {name: seen.at for name in now_back if name in seen.room}
    return frozenset(
        (one.campaign, one.number)
        for one in seen.arrays
        if one.cluster in back_at and one.intended_at < back_at[one.cluster]
    )


def recorded(
    records: Iterable[ClusterSuccessRecord],
    ended: Iterable[tuple[Attempt, str]],
    untimed: Container[tuple[int, int]] = (),
) -> tuple[ClusterSuccessRecord, ...]:
    """Return what changes of how campaigns fared, whatever order the ends came in.

    How long the tasks of untimed arrays took counts for nothing.
    """
    known = {(one.campaign, one.cluster): one for one in records}
    of: dict[Pair, list[Attempt]] = {}
    for one, cluster in ended:
        of.setdefault((one.campaign, cluster), []).append(one)
    return tuple(
        _counted(
            known.get(pair) or ClusterSuccessRecord(campaign=pair[0], cluster=pair[1]),
            every,
            untimed,
        )
        for pair, every in of.items()
    )


def _counted(
    known: ClusterSuccessRecord, ended: Sequence[Attempt], untimed: Container[tuple[int, int]]
) -> ClusterSuccessRecord:
    """Count ends; any task that went well breaks the row, and any that began that of wiped ones."""
    outcomes = [one.outcome for one in ended]
    wiped = 0 if BEGAN.intersection(outcomes) else known.wiped_in_row + outcomes.count(WIPED)
    good = [one for one in ended if one.outcome is TaskOutcome.SUCCESS]
    hosts = [one.host for one in ended if one.outcome in BY_ITSELF]
    errors = len(hosts)
    is_row = all(each in BY_ITSELF or each not in BEGAN for each in outcomes)
    timed = (one for one in good if (one.campaign, one.array) not in untimed)
    took = tuple(one.wallclock_s for one in timed if one.wallclock_s is not None)
    return replace(
        known,
        errors_in_row=known.errors_in_row + errors if is_row else 0,
        error_host=_only_host(known, hosts) if is_row else "",
        successes=known.successes + len(good),
        durations_s=(*known.durations_s, *took)[-KEPT:],
        wiped_in_row=wiped,
    )


def _only_host(known: ClusterSuccessRecord, hosts: Iterable[str]) -> str:
    every = {*hosts, known.error_host} if known.errors_in_row else {*hosts}
    return every.pop() if len(every) == 1 else ""


def _note_records(
    book: OpenEvents, records: tuple[ClusterSuccessRecord, ...], seen: CycleSituation
) -> None:
    """Close a cluster after program errors in a row, and a sink, until somebody says otherwise."""
    found = sinks(records)
    for one in records:
        pair = one.campaign, one.cluster
        is_bad = one.errors_in_row >= seen.failures.program_errors
        if is_bad and not book.find(EventCode.BLACKLIST, *pair):
            event = opened_now(EventKind.CAMPAIGN, EventCode.BLACKLIST, *pair, seen.at)
            book.put(replace(event, tasks=one.errors_in_row, host=one.error_host))
        if pair in found and not book.find(EventCode.SINK, *pair):
            event = opened_now(EventKind.CAMPAIGN, EventCode.SINK, *pair, seen.at)
            book.put(replace(event, tasks=one.successes))


def _note_campaigns(book: OpenEvents, seen: CycleSituation, finished: frozenset[int]) -> None:
    """Tell of a campaign of which tasks wait that may go nowhere; of an ended one none does."""
    barred = bars(book.open, seen.at, seen.failures)
    lasting = {one.number for one in seen.campaigns}
    for one in seen.campaigns:
        known = book.find(EventCode.NO_CLUSTER, one.number)
        stuck = is_stuck(one, seen, barred)
        if stuck is False:
            book.close(known, seen.at)
        elif stuck and not known:
            book.put(opened_now(EventKind.CAMPAIGN, EventCode.NO_CLUSTER, one.number, "", seen.at))
    for event in book.open:
        is_barring = event.code in BARRING and event.code is not EventCode.SINK
        if event.campaign in finished and (is_barring or event.code is EventCode.NO_CLUSTER):
            book.close(event, seen.at)
        if event.code in ROOTS and event.campaign not in lasting:
            book.close(event, seen.at)

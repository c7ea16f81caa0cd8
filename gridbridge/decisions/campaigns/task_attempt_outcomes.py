"""Decide from job lists and accounting records which attempts have ended, and with what outcome.

Exit statuses 66 and 67 request another run, as in CiGri, unless the cluster killed or deleted the task.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from math import inf

from gridbridge.decisions.campaigns.campaign_event_rules import find_given_up_conflicting_ends
from gridbridge.decisions.campaigns.grouped_task_ends import TaskEndInJob, split_job_end_among_tasks
from gridbridge.decisions.wrapper_end_interpretation import (
    MISSING_INPUT_SIGNAL,
    was_job_preempted,
    why_job_not_started,
    wrapper_exit_status,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.grouped_tasks import JobRecord
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    REASONS_HELD_FIRST,
    REASONS_OF_MOVES,
    NikitaDeletionReason,
    TaskDeletionMark,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.jobs_and_accounting import FutureDatedJobEnd, JobEnd, JobKillReason

RESUBMIT_OUTCOMES = {66: TaskAttemptOutcome.RESUBMIT, 67: TaskAttemptOutcome.RESUBMIT_LAST}  # {exit status: outcome}
KILL_OUTCOMES = {
    JobKillReason.PLACE: TaskAttemptOutcome.PREEMPTED,
    JobKillReason.WALLTIME: TaskAttemptOutcome.WALLTIME,
    JobKillReason.DELETION: TaskAttemptOutcome.CANCELLED,
}
DELETION_OUTCOMES = frozenset({TaskAttemptOutcome.SIGNAL, TaskAttemptOutcome.CANCELLED})
KILLED_OUTCOMES = DELETION_OUTCOMES | {TaskAttemptOutcome.SITE_FAULT}

SELF_ENDED_OUTCOMES = frozenset({TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR})


def classify_job_end(end: JobEnd, walltime_s: int) -> TaskAttemptOutcome:
    """Return the outcome of an ended job: WALLTIME if a signal killed it after its walltime."""
    if end.killed_for in KILL_OUTCOMES:
        return KILL_OUTCOMES[end.killed_for]
    if was_job_preempted(end):
        return TaskAttemptOutcome.PREEMPTED
    if end.signal == MISSING_INPUT_SIGNAL:
        return TaskAttemptOutcome.INPUT_MISSING
    if why_job_not_started(end):
        return TaskAttemptOutcome.SETUP_ERROR
    if end.is_end_unknown:
        return TaskAttemptOutcome.SITE_FAULT
    if end.signal is not None and wrapper_exit_status(end) is None:
        is_late = end.wallclock_s is not None and end.wallclock_s >= walltime_s
        return TaskAttemptOutcome.WALLTIME if is_late else TaskAttemptOutcome.SIGNAL
    if (status := wrapper_exit_status(end)) == 0:
        return TaskAttemptOutcome.SUCCESS
    return RESUBMIT_OUTCOMES.get(status or 0, TaskAttemptOutcome.PROGRAM_ERROR)


def outcome_of_task_deleted_by_nikita(
    end: JobEnd, outcome: TaskAttemptOutcome, wiped_for: NikitaDeletionReason
) -> TaskAttemptOutcome:
    """Return the outcome of a task marked for deletion by nikita; `outcome` is from the accounting.

    A task that ended by itself keeps `outcome`. A cancelled task gets UNWANTED, so that it never runs again. A task
    that was deleted for waiting, but had just started, counts as preempted. A task marked for a move keeps `outcome` if
    it had started, because somebody else ended it.
    """
    if wiped_for is NikitaDeletionReason.UNWANTED:
        return outcome if outcome in SELF_ENDED_OUTCOMES else TaskAttemptOutcome.UNWANTED
    if outcome not in KILLED_OUTCOMES:
        return outcome
    if wiped_for is NikitaDeletionReason.OVERRAN:
        return TaskAttemptOutcome.WALLTIME
    is_new = end.is_unstarted and end.killed_for is JobKillReason.DELETION
    if wiped_for in REASONS_OF_MOVES:
        return TaskAttemptOutcome.MOVED if is_new else outcome
    return TaskAttemptOutcome.WIPED if is_new else TaskAttemptOutcome.PREEMPTED


# {array index: how the task ended}; None: the accounting records contradict each other
ReportedEnds = Mapping[int, JobEnd | FutureDatedJobEnd | None]
NO_CANCELLATION_MARKS: Mapping[int, TaskDeletionMark] = {}
UNKNOWN_END = JobEnd()
DELETED_BEFORE_START = JobEnd(killed_for=JobKillReason.DELETION, is_unstarted=True)
MAX_WAIT_FOR_FUTURE_END_S = 600.0  # a task missing for longer has ended, even if its recorded end is in the future
MIN_RUN_TIME_CAP_S = 60.0  # a shorter run time in an accounting record is always believed


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayWithMissingTasks:
    is_listed: bool
    lives: frozenset[int] | None  # array indices of live tasks; None: the cluster does not know the array
    ran: Set[int] = frozenset()  # array indices of tasks that were running when a job list last showed them
    sent_s: float = inf  # seconds since the array was submitted
    # {array index: record of the job's tasks}; None: each job runs a single task
    records: Mapping[int, JobRecord | None] | None = None


class MissingAttemptOutcomeDecider:
    """Decides the outcomes of attempts that are missing in the job lists of their clusters.

    Without a record, an unstarted task counts as deleted after `forgotten_s`, or at once if nikita held it before the
    deletion; a started task counts as lost, and may still run.
    """

    def __init__(
        self,
        campaigns: Iterable[Campaign],
        events: Iterable[CampaignEvent],
        marks: Mapping[tuple[int, int], Mapping[int, TaskDeletionMark]],
        forgotten_s: float,
    ) -> None:
        """Store the facts; `marks` maps (campaign, array) and array index to nikita's deletion mark."""
        self._campaigns = {campaign.number: campaign for campaign in campaigns}
        self._given_up = find_given_up_conflicting_ends(events)
        self._marks = marks
        self._forgotten_s = forgotten_s

    def list_tasks_deleted_while_held(self, array: CampaignArray) -> frozenset[int]:
        marks = self._marks.get((array.campaign, array.number), NO_CANCELLATION_MARKS)
        return frozenset(index for index, mark in marks.items() if mark.wiped_for in REASONS_HELD_FIRST)

    def filter_believed_job_ends(
        self, array: CampaignArray, missing: Mapping[TaskAttempt, float], ends: ReportedEnds
    ) -> ReportedEnds:
        """Return those reported ends of an array's tasks that gridbridge believes.

        Records of tasks that were deleted before their start must be forged, and are ignored; so are contradicting
        records in a cancelled campaign. If the owner gave up tasks with contradicting records, the tasks get an unknown
        end.
        """
        ends = mark_future_ends_as_disputed(missing, ends)
        ends = {**ends, **dict.fromkeys(self.list_tasks_deleted_while_held(array), DELETED_BEFORE_START)}
        if self._is_campaign_cancelled(array):
            ends = {index: end for index, end in ends.items() if end}
        if (array.campaign, array.cluster) in self._given_up:
            ends = {index: end or UNKNOWN_END for index, end in ends.items()}
        return ends

    def list_attempts_missing_too_long(
        self, missing: Mapping[TaskAttempt, float], ends: ReportedEnds
    ) -> tuple[TaskAttempt, ...]:
        """Return attempts that are missing too long, without an accounting record or with an end in the future."""
        return tuple(
            attempt
            for attempt, missed_s in missing.items()
            if (missed_s > self._forgotten_s and attempt.place not in ends)
            or (missed_s > MAX_WAIT_FOR_FUTURE_END_S and isinstance(ends.get(attempt.place), FutureDatedJobEnd))
        )

    def list_ended_attempts(
        self,
        array: CampaignArray,
        missing: Mapping[TaskAttempt, float],
        ends: ReportedEnds,
        missing_array: ArrayWithMissingTasks,
    ) -> tuple[TaskAttempt, ...]:
        campaign = self._campaigns.get(array.campaign)
        request = campaign.jdl.clusters.get(array.cluster) if campaign else None
        late = self.list_attempts_missing_too_long(missing, ends)
        listed = select_attempts_still_alive(late, missing_array.lives, missing_array.is_listed)
        unlisted = {attempt: missed_s for attempt, missed_s in missing.items() if attempt not in listed}
        marks = self._marks.get((array.campaign, array.number), NO_CANCELLATION_MARKS)
        is_cancelled = self._is_campaign_cancelled(array)
        ran = set() if is_cancelled else missing_array.ran - ends.keys()
        # a prologue or epilogue that its cluster lost counts as deleted, and so as failed
        lost = ran & {attempt.place for attempt in late if not is_prologue_or_epilogue_task(attempt.task)}
        ends = {**ends, **dict.fromkeys(lost, UNKNOWN_END)}
        unread = {index for index, record in (missing_array.records or {}).items() if record is None}
        lost_job = dict.fromkeys(lost | unread, array.job_id)
        walltime_s = request.walltime_s if request else 0
        most_s = max(MIN_RUN_TIME_CAP_S, missing_array.sent_s)
        if missing_array.records is None:
            attempts = outcomes_of_missing_attempts(unlisted, ends, walltime_s, self._forgotten_s, marks)
        else:
            known = known_job_ends(unlisted, ends, self._forgotten_s)
            attempts = outcomes_of_grouped_attempts(known, walltime_s, marks, missing_array.records, may_live=lost)
        return tuple(
            _correct_ended_attempt(attempt, most_s, lost_job.get(attempt.place, 0), is_cancelled=is_cancelled)
            for attempt in attempts
        )

    def may_lack_deletion_marks(self, array: CampaignArray, attempts: Iterable[TaskAttempt]) -> bool:
        """Say whether nikita may have deleted attempts although a restored state file lacks their marks."""
        is_killed = any(attempt.outcome in DELETION_OUTCOMES for attempt in attempts)
        return is_killed and not self._is_campaign_cancelled(array)

    def _is_campaign_cancelled(self, array: CampaignArray) -> bool:
        campaign = self._campaigns.get(array.campaign)
        return campaign is not None and campaign.state is CampaignState.CANCELLED


def _correct_ended_attempt(attempt: TaskAttempt, most_s: float, lost_job: int, *, is_cancelled: bool) -> TaskAttempt:
    """Correct the run time, the outcome and the lost job's id of an ended attempt.

    `most_s` limits run times, because users can forge records. In a cancelled campaign a signal counts as a
    deletion, because Grid Engine's accounting shows a deletion only as a signal.
    """
    is_deleted = is_cancelled and attempt.outcome in (TaskAttemptOutcome.SIGNAL, TaskAttemptOutcome.UNBEGUN)
    is_forged = attempt.wallclock_s is not None and attempt.wallclock_s > most_s
    return replace(
        attempt,
        outcome=TaskAttemptOutcome.CANCELLED if is_deleted else attempt.outcome,
        wallclock_s=round(most_s) if is_forged else attempt.wallclock_s,
        forgotten_job=lost_job if attempt.outcome is TaskAttemptOutcome.SITE_FAULT else attempt.forgotten_job,
    )


def close_attempts_without_end(attempts: Iterable[TaskAttempt], outcome: TaskAttemptOutcome) -> tuple[TaskAttempt, ...]:
    """Give `outcome` to attempts without a reported end, or UNWANTED if the owner cancelled the task."""
    return tuple(
        replace(attempt, outcome=TaskAttemptOutcome.UNWANTED if attempt.is_unwanted else outcome)
        for attempt in attempts
    )


def mark_future_ends_as_disputed(missing: Mapping[TaskAttempt, float], ends: ReportedEnds) -> ReportedEnds:
    """Set ends in the future to None (disputed, perhaps forged) once the tasks are missing too long."""
    late = {attempt.place for attempt, missed_s in missing.items() if missed_s > MAX_WAIT_FOR_FUTURE_END_S}
    return {
        index: end if index not in late or not isinstance(end, FutureDatedJobEnd) or end.end else None
        for index, end in ends.items()
    }


def select_job_ends_in_future(ends: ReportedEnds) -> tuple[FutureDatedJobEnd, ...]:
    return tuple(end for end in ends.values() if isinstance(end, FutureDatedJobEnd))


def select_attempts_with_conflicting_ends(
    missing: Iterable[TaskAttempt], ends: ReportedEnds
) -> tuple[TaskAttempt, ...]:
    return tuple(attempt for attempt in missing if ends.get(attempt.place, UNKNOWN_END) is None)


def known_job_ends(
    missing: Mapping[TaskAttempt, float], ends: ReportedEnds, forgotten_s: float
) -> dict[TaskAttempt, JobEnd]:
    """Return the known ends of missing attempts' jobs; a disputed (None) or future end does not count yet.

    `missing` has, for each attempt, the seconds since a job list last showed it.
    """
    known = {}
    for attempt, missed_s in missing.items():
        end = ends.get(attempt.place, DELETED_BEFORE_START if missed_s > forgotten_s else None)
        if isinstance(end, FutureDatedJobEnd):
            end = end.end if missed_s > MAX_WAIT_FOR_FUTURE_END_S else None
        if end:
            known[attempt] = end
    return known


def outcomes_of_missing_attempts(
    missing: Mapping[TaskAttempt, float],
    ends: ReportedEnds,
    walltime_s: int,
    forgotten_s: float,
    marks: Mapping[int, TaskDeletionMark] = NO_CANCELLATION_MARKS,
) -> tuple[TaskAttempt, ...]:
    """Return the missing attempts of an array that have ended, with their outcomes."""
    known = known_job_ends(missing, ends, forgotten_s)
    reasons = {index: mark.wiped_for for index, mark in marks.items()}
    return tuple(
        _attempt_with_end(attempt, end, walltime_s, reasons.get(attempt.place)) for attempt, end in known.items()
    )


def _attempt_with_end(
    attempt: TaskAttempt, end: JobEnd, walltime_s: int, wiped_for: NikitaDeletionReason | None
) -> TaskAttempt:
    outcome = classify_job_end(end, walltime_s)
    return replace(
        attempt,
        outcome=outcome_of_task_deleted_by_nikita(end, outcome, wiped_for) if wiped_for else outcome,
        exit_status=wrapper_exit_status(end),
        wallclock_s=None if end.wallclock_s is None else round(end.wallclock_s),
        host=end.host,
        max_rss_kb=_kb_if_measured(end, end.max_rss_kb),
        max_vmem_kb=_kb_if_measured(end, end.max_vmem_kb),
        written_kb=_kb_if_measured(end, end.written_kb),
    )


def _kb_if_measured(end: JobEnd, kb: float | None) -> int | None:
    """Return an amount in kB; None if the job was not measured, which its missing resident set shows."""
    return round(kb or 0) if end.max_rss_kb else None


def outcomes_of_grouped_attempts(
    ends: Mapping[TaskAttempt, JobEnd],
    walltime_s: int,
    marks: Mapping[int, TaskDeletionMark],
    records: Mapping[int, JobRecord | None],
    may_live: Set[int] = frozenset(),
) -> tuple[TaskAttempt, ...]:
    """Return the attempts of ended jobs that ran several tasks; `records` has the jobs' records by array index.

    Jobs without a record in `records` are skipped. `may_live` has the indices of lost jobs.
    """
    jobs = defaultdict[int, list[TaskAttempt]](list)
    for attempt in ends:
        jobs[attempt.place].append(attempt)
    ended = list[TaskAttempt]()
    for index in jobs.keys() & records.keys():
        end, mark = ends[jobs[index][0]], marks.get(index)
        split = split_job_end_among_tasks(end, jobs[index], records[index], walltime_s, may_live=index in may_live)
        ended += (_attempt_with_end_in_job(attempt, split[attempt], walltime_s, mark) for attempt in split)
    return tuple(ended)


def _attempt_with_end_in_job(
    attempt: TaskAttempt, in_job: TaskEndInJob, walltime_s: int, mark: TaskDeletionMark | None
) -> TaskAttempt:
    """Give an attempt its outcome; if a job was deleted to cancel one task, the job's other tasks are not cancelled."""
    if attempt.is_unwanted:
        return _attempt_with_end(attempt, in_job.end or UNKNOWN_END, walltime_s, NikitaDeletionReason.UNWANTED)
    if in_job.end is None:
        return replace(attempt, outcome=TaskAttemptOutcome.UNBEGUN)
    if in_job.is_recorded or mark is None:
        return _attempt_with_end(attempt, in_job.end, walltime_s, None)
    if mark.wiped_for is not NikitaDeletionReason.UNWANTED:
        return _attempt_with_end(attempt, in_job.end, walltime_s, mark.wiped_for)
    ended = _attempt_with_end(attempt, in_job.end, walltime_s, None)
    return replace(ended, outcome=TaskAttemptOutcome.UNBEGUN) if ended.outcome in KILLED_OUTCOMES else ended


def select_attempts_still_alive(
    late_attempts: Iterable[TaskAttempt], lives: frozenset[int] | None, is_listed: bool
) -> frozenset[TaskAttempt]:
    """Return the attempts in `late_attempts` that may be alive according to a query for their array.

    The cluster was asked again, because a list of all jobs may be truncated. `lives` has the indices of started tasks;
    None: the cluster does not know the array. If the job list had no task of the array, all attempts may be alive; if
    the job list had such a task (`is_listed`), tasks that had not started were deleted.
    """
    if lives is None:
        return frozenset()
    return frozenset(attempt for attempt in late_attempts if not is_listed or attempt.place in lives)

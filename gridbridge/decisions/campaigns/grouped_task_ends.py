"""Split the end of a job that ran several tasks into the ends of the tasks, by the record that the job left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridbridge.decisions.wrapper_end_interpretation import was_job_preempted
from gridbridge.model.campaigns.campaign import TaskAttempt
from gridbridge.model.campaigns.grouped_tasks import JobRecord, TaskAndAttempt
from gridbridge.model.jobs_and_accounting import JobEnd, JobKillReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEndInJob:
    end: JobEnd | None  # None: the task did not begin
    is_recorded: bool = False  # whether the task had ended before the job


UNBEGUN = TaskEndInJob(end=None)
FIRST_CS = 100  # a task that began within the first second counts as begun with the job


def has_begun_a_task(job: JobEnd) -> bool:
    """Say whether an ended job must have a record: its shell exits with 0 only after it has begun a task."""
    return job.exit_status == 0 and job.signal is None


def split_job_end_among_tasks(
    job: JobEnd, attempts: Sequence[TaskAttempt], record: JobRecord | None, walltime_s: int, *, may_live: bool = False
) -> dict[TaskAttempt, TaskEndInJob]:
    """Return the end of each attempt of a job; `record` is None if it can't be read.

    Lines about tasks of other jobs are ignored; a record of only such lines counts as unreadable.

    If the record has a task's end, this end counts. A task that began without a recorded end ended with the job. All
    other tasks have not begun. Without a record that must exist, all tasks are lost. If a job began no task, its end
    counts for its first task, or for all tasks if the job was deleted or lost. If a lost job may still live
    (`may_live`), its tasks without an end are lost. Only tasks that began with the job had the whole walltime; another
    task that the walltime ended counts as preempted.
    """
    of_job = {(attempt.task, attempt.attempt) for attempt in attempts}
    lines, record = record, {key: run for key, run in (record or {}).items() if key in of_job}
    if lines is None or (not record and (lines or has_begun_a_task(job))):
        return _unknown_ends(job, attempts)
    run_s = _run_times_s(job, record)
    ends = {}
    for attempt in sorted(attempts, key=lambda attempt: (-attempt.attempt, attempt.task)):
        key = attempt.task, attempt.attempt
        run = record.get(key)
        if run and run.ended_cs is not None:
            own = JobEnd(exit_status=run.exit_status, signal=run.signal, host=job.host, wallclock_s=run_s.get(key))
            ends[attempt] = TaskEndInJob(end=own, is_recorded=True)
        elif run:
            ends[attempt] = TaskEndInJob(
                end=_end_with_job(job, run_s.get(key), walltime_s, is_first=run.began_cs <= FIRST_CS)
            )
        elif may_live or (not record and (not ends or _has_job_never_started(job))):
            ends[attempt] = TaskEndInJob(end=job)
        else:
            ends[attempt] = UNBEGUN
    return ends


def _unknown_ends(job: JobEnd, attempts: Sequence[TaskAttempt]) -> dict[TaskAttempt, TaskEndInJob]:
    """Return ends of which nothing is known but the job's run time, which counts once, as that of one attempt."""
    ends = dict.fromkeys(attempts, TaskEndInJob(end=JobEnd(host=job.host)))
    return ends | {attempts[0]: TaskEndInJob(end=JobEnd(host=job.host, wallclock_s=job.wallclock_s))}


def _has_job_never_started(job: JobEnd) -> bool:
    return job.is_unstarted or job.is_end_unknown or job.killed_for is JobKillReason.DELETION


def _end_with_job(job: JobEnd, run_s: float | None, walltime_s: int, *, is_first: bool) -> JobEnd:
    if job.exit_status is not None and job.signal is None and job.killed_for is JobKillReason.UNKNOWN:
        return JobEnd(host=job.host, wallclock_s=run_s)  # the job's shell went on, but could not write the task's end
    is_killed = job.signal is not None and not was_job_preempted(job)
    is_late = is_killed and job.wallclock_s is not None and job.wallclock_s >= walltime_s
    if (job.killed_for is JobKillReason.WALLTIME or is_late) and not is_first:
        return JobEnd(is_preempted=True, host=job.host, wallclock_s=run_s)
    killed_for = JobKillReason.WALLTIME if is_late else job.killed_for
    return replace(job, killed_for=killed_for, wallclock_s=run_s, max_rss_kb=None)  # memory is that of the whole job


def _run_times_s(job: JobEnd, record: JobRecord) -> dict[TaskAndAttempt, float]:
    """Return the tasks' run times; their sum is the job's run time, so that owners can't hide used slots.

    A task without a recorded end ran until the job's end. The other tasks share the rest of the job's time in
    proportion to their recorded times. Sums of the rounded times stay exact.
    """
    if job.wallclock_s is None:
        return {}
    last_cs = round(100 * job.wallclock_s)
    shares = {
        key: (max(run.began_cs, last_cs) if run.ended_cs is None else run.ended_cs) - run.began_cs + 1
        for key, run in record.items()
    }
    total, before, times = sum(shares.values()), 0, dict[TaskAndAttempt, float]()
    for key, share in shares.items():
        begin_s, before = round(job.wallclock_s * before / total), before + share
        times[key] = float(round(job.wallclock_s * before / total) - begin_s)
    return times

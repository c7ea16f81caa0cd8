"""Describes a home job: its state, and why it waits, in the words of `qstat -j` and `qalter -w p`."""

from collections.abc import Iterator
from datetime import datetime

from gridbridge.model.cluster_snapshot import ClusterJobListRow, ListedJobStatus
from gridbridge.model.job_and_queue_states import JobStateFact
from gridbridge.model.published_status_and_reports import format_duration, number_with_noun

MOST_TOLD = 5  # limit of printed reasons, because the scheduler of a large cell gives a thousand
NOT_TOLD = "the scheduler gives no reason for the wait"
WORDS = {  # singular and plural verb of each state
    JobStateFact.DELETING: ("is being deleted", "are being deleted"),
    JobStateFact.ERROR: ("is in error state", "are in error state"),
    JobStateFact.SUSPENDED: ("is suspended", "are suspended"),
    JobStateFact.RUNNING: ("runs", "run"),
    JobStateFact.HELD: ("waits, held", "wait, held"),
    JobStateFact.WAITING: ("waits", "wait"),
}
UNKNOWN = ("is in an unknown state", "are in an unknown state")


def describe_home_job_state(job: ListedJobStatus, now: datetime) -> tuple[str, ...]:
    """Describe the states and errors of a job's tasks, and why waiting tasks don't start."""
    return (
        *(_job_row_sentence(row, now) for row in job.rows),
        *_job_error_sentences(job),
        *_job_waiting_reason_sentences(job),
    )


def _job_row_sentence(row: ClusterJobListRow, now: datetime) -> str:
    singular, plural = WORDS.get(row.state.most_important_fact, UNKNOWN)
    at = f" in {row.queue}" if row.queue else ""
    since = f" for {format_duration(now - row.since)}" if row.since else ""
    verb, subject = (singular if row.task_count == 1 else plural), "the job"
    if row.tasks:
        tasks = f"{row.task_count} tasks ({row.tasks[0][0]} to {row.tasks[-1][-1]})"
        subject = f"task {row.single_task_number}" if row.task_count == 1 else tasks
    return f"{subject} {verb}{at}{since} ({row.state.text})"


def _job_error_sentences(job: ListedJobStatus) -> Iterator[str]:
    yield from (f"error: {text}" for text in dict.fromkeys(job.errors))
    if any(row.state.is_error for row in job.rows):
        yield f"qmod -cj {job.job_id} clears the error, and Grid Engine tries the job again"


def _job_waiting_reason_sentences(job: ListedJobStatus) -> Iterator[str]:
    if any(row.state.is_waiting and row.state.is_held for row in job.rows):
        yield f"qrls {job.job_id} ends a user's hold; qstat -j {job.job_id} names the jobs that this job waits for"
    yield from (f"the job can't start: {text}" for text in job.hindrances[:MOST_TOLD])
    if len(job.hindrances) > MOST_TOLD:
        more = number_with_noun(len(job.hindrances) - MOST_TOLD, "more reason")
        yield f"{more}: qstat -j {job.job_id}"
    if not job.hindrances and any(row.state.can_start for row in job.rows):
        yield NOT_TOLD

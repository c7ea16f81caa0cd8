"""What a task's end means: one classifier for every batch system, whatever order facts come in.

Exit statuses 66 and 67 ask for another run, as in CiGri; what the cluster did to a task comes
before what its program said (facts of the CiGri scheduler: a walltime kill is no plain kill).
"""

from gridbridge.decisions.wrapper_end import job_exit_status, was_preempted, why_job_not_started
from gridbridge.model.campaigns.campaign import TaskOutcome
from gridbridge.model.campaigns.cancellation import OF_MOVES, WipedFor
from gridbridge.model.job import JobEnd, KillReason

RESUBMIT, RESUBMIT_LAST = 66, 67
ASKED = {RESUBMIT: TaskOutcome.RESUBMIT, RESUBMIT_LAST: TaskOutcome.RESUBMIT_LAST}
KILLED = {
    KillReason.PLACE: TaskOutcome.PREEMPTED,
    KillReason.WALLTIME: TaskOutcome.WALLTIME,
    KillReason.DELETION: TaskOutcome.CANCELLED,
}
OF_DELETION = frozenset({TaskOutcome.SIGNAL, TaskOutcome.CANCELLED})
KILLED_OUTCOMES = OF_DELETION | {TaskOutcome.SITE_FAULT}

BY_ITSELF = frozenset({TaskOutcome.SUCCESS, TaskOutcome.PROGRAM_ERROR})


def outcome_of(end: JobEnd, walltime_s: int) -> TaskOutcome:
    """Say what an end came to; a kill after the walltime is one for it, whoever noted that."""
    if end.killed_for in KILLED:
        return KILLED[end.killed_for]
    if was_preempted(end):
        return TaskOutcome.PREEMPTED
    if why_job_not_started(end):
        return TaskOutcome.SETUP_ERROR
    if end.is_unseen:
        return TaskOutcome.SITE_FAULT
    if end.signal is not None and job_exit_status(end) is None:
        is_late = end.wallclock_s is not None and end.wallclock_s >= walltime_s
        return TaskOutcome.WALLTIME if is_late else TaskOutcome.SIGNAL
    if (status := job_exit_status(end)) == 0:
        return TaskOutcome.SUCCESS
    return ASKED.get(status or 0, TaskOutcome.PROGRAM_ERROR)


def outcome_of_wiped(end: JobEnd, outcome: TaskOutcome, wiped_for: WipedFor) -> TaskOutcome:
    """Say what the end of a task came to that nikita deleted, unless it ended by itself.

    One that its owner cancelled is over, whatever it came to.
    One that started before it was deleted for its waiting lost its place by no fault of its own;
    what is moved is deleted only while it waits, so that it was somebody else who ended what began.
    """
    if wiped_for is WipedFor.UNWANTED:
        return outcome if outcome in BY_ITSELF else TaskOutcome.UNWANTED
    if outcome not in KILLED_OUTCOMES:
        return outcome
    if wiped_for is WipedFor.OVERRAN:
        return TaskOutcome.WALLTIME
    is_new = end.is_unstarted and end.killed_for is KillReason.DELETION
    if wiped_for in OF_MOVES:
        return TaskOutcome.MOVED if is_new else outcome
    return TaskOutcome.WIPED if is_new else TaskOutcome.PREEMPTED

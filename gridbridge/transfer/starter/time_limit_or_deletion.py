"""Tell whether a local job was deleted or suspended, or only its time limit at home has passed.

Grid Engine reports a person's act and a passed limit alike. execd counts h_rt and s_rt from the start at home, so the
limit may pass while the remote job waits or runs; the remote job has its own limit. With -notify the shepherd sends
USR1 before a suspension and for s_rt, and USR2 before a deletion.
"""

from gridbridge.batch import load_home_job_control
from gridbridge.errors import GridbridgeError
from gridbridge.model.states import JobState
from gridbridge.model.transfer_message import DesiredLocalJobState
from gridbridge.model.transfer_route import Home
from gridbridge.shell import safe_files
from gridbridge.transfer.starter.local_task import BACK, LocalTask, parse_time_limit_s

SLACK_S = 2.0  # execd writes a job's config file within this time
PATIENCE_S = 3.0  # timeout of a query to the home cluster


def is_local_job_deleted(task: LocalTask, home: Home) -> bool:
    """Say whether somebody deleted the local job; False if only its h_rt has passed.

    If home does not answer, the h_rt that the job requested decides. A requeued job is noted, because the starter's
    end may count as the end of the job's next run.
    """
    try:
        state = load_home_job_control(home).query_job_state(home.within(PATIENCE_S), task.local)
        _note_back(task, state)
        if _is_leaving(task, state):
            return True
        limit_s = min(task.limit("h_rt"), _queue_limit(task, home.within(PATIENCE_S)))
    except GridbridgeError:
        limit_s = task.limit("h_rt")
    return task.ran_for_s() < limit_s - SLACK_S


def is_local_job_suspended(task: LocalTask, home: Home) -> bool:
    """Say whether home shows the local job as suspended: by hand, with its queue, or by a threshold."""
    return load_home_job_control(home).query_job_state(home, task.local).is_suspended


def is_notify_signal_genuine(task: LocalTask, home: Home, intent: str) -> bool:
    """Say whether home confirms the deletion or suspension that a -notify signal announced."""
    return (
        is_local_job_deleted(task, home) if intent == DesiredLocalJobState.DEAD else is_local_job_suspended(task, home)
    )


def _is_leaving(task: LocalTask, state: JobState) -> bool:
    """Say whether the local job was deleted, even by force, or rescheduled."""
    is_rescheduled = state.is_waiting or (state.is_restarted and not task.restarted)
    return not state.is_listed or state.is_deleting or is_rescheduled


def _note_back(task: LocalTask, state: JobState) -> None:
    """Note whether the local job was rescheduled, so that its next run waits or has begun."""
    if not state.is_deleting and (state.is_waiting or state.is_restarted):
        task.note_done(BACK)
    else:
        safe_files.remove_file(f"{task.private}/{BACK}")


def _queue_limit(task: LocalTask, home: Home) -> float:
    host = task.env["HOSTNAME"]
    return parse_time_limit_s(load_home_job_control(home).query_queue_limit(home, task.queue, "h_rt", host))

"""Distinguish a deleted or suspended local job from a job whose time limit at home has passed.

Grid Engine signals both in the same way, and execd counts h_rt and s_rt from the start at home. With -notify the
shepherd sends USR1 before a suspension and for s_rt, and USR2 before a deletion.
"""

from gridbridge.batch import load_home_job_control
from gridbridge.errors import GridbridgeError
from gridbridge.model.transfer_messages_in_spool import DesiredLocalJobState
from gridbridge.model.transfer_route import HomeClusterAccessSettings
from gridbridge.shell import safe_files
from gridbridge.transfer.starter.local_task import BACK, LocalTask, parse_time_limit_s

SLACK_S = 2.0  # execd writes a job's config file within this time
PATIENCE_S = 3.0  # timeout of a query to the home cluster


def is_local_job_deleted(task: LocalTask, home: HomeClusterAccessSettings) -> bool:
    """Say whether somebody deleted the local job; return False if only its h_rt has passed.

    If home does not answer, the requested h_rt decides. For a requeued job a note is written, because Grid Engine may
    take the starter's end for the end of the job's next run.
    """
    try:
        control, home = load_home_job_control(home), home.with_time_limit(PATIENCE_S)
        state = control.query_job_state(home, task.local_task_id)
        if not state.is_deleting and (state.is_waiting or state.is_restarted):
            task.note_step_done(BACK)
        else:
            safe_files.remove_file(f"{task.private}/{BACK}")
        is_rescheduled = state.is_waiting or (state.is_restarted and not task.restarted)
        if not state.is_listed or state.is_deleting or is_rescheduled:
            return True
        queue_limit = control.query_queue_limit(home, task.queue, "h_rt", task.env["HOSTNAME"])
        limit_s = min(task.read_time_limit_s("h_rt"), parse_time_limit_s(queue_limit))
    except GridbridgeError:
        limit_s = task.read_time_limit_s("h_rt")
    return task.local_run_time_s() < limit_s - SLACK_S


def is_notify_signal_genuine(task: LocalTask, home: HomeClusterAccessSettings, intent: str) -> bool:
    """Say whether home confirms the deletion or suspension that a -notify signal announced."""
    if intent == DesiredLocalJobState.DEAD:
        return is_local_job_deleted(task, home)
    return load_home_job_control(home).query_job_state(home, task.local_task_id).is_suspended

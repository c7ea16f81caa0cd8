"""Tells a deletion or suspension from a local time limit: both come as the same call or signal.

execd counts h_rt and s_rt from the local dispatch, so they strike while the remote job waits
or is still within its own limit, which decides (facts B2.9). With -notify the shepherd sends
USR1 before a suspension and USR2 before a deletion, and execd sends USR1 for s_rt too.
"""

from gridbridge.batch import keeper_of
from gridbridge.errors import GridbridgeError
from gridbridge.model.message import DesiredJobState
from gridbridge.model.route import Home
from gridbridge.model.states import JobState
from gridbridge.shell import files
from gridbridge.transfer.starter.local_task import BACK, LocalTask, seconds

SLACK_S = 2.0  # execd's clock starts up to that much before it writes its config file
PATIENCE_S = 3.0  # for an answer of home; the local job has to be gone within 20 s


def is_deleted(task: LocalTask, home: Home) -> bool:
    """Say whether somebody deleted the local job, or only its h_rt has passed.

    When home does not answer, the limit that the job itself asked for decides. It notes whether the
    job is put back: its starter's end may count for its next start.
    """
    try:
        state = keeper_of(home).state(home.within(PATIENCE_S), task.local)
        _note_back(task, state)
        if _is_leaving(task, state):
            return True
        limit_s = min(task.limit("h_rt"), _queue_limit(task, home.within(PATIENCE_S)))
    except GridbridgeError:
        limit_s = task.limit("h_rt")
    return task.ran_for_s() < limit_s - SLACK_S


def is_suspended(task: LocalTask, home: Home) -> bool:
    """Say whether the local job is suspended, by hand, with its queue or by a threshold."""
    return keeper_of(home).state(home, task.local).is_suspended


def is_wanted(task: LocalTask, home: Home, intent: str) -> bool:
    """Say whether a signal that the starter got means what -notify says."""
    return is_deleted(task, home) if intent == DesiredJobState.DEAD else is_suspended(task, home)


def _is_leaving(task: LocalTask, state: JobState) -> bool:
    """Say whether the local job was deleted, is gone by force, or was rescheduled."""
    is_rescheduled = state.is_waiting or (state.is_restarted and not task.restarted)
    return not state.is_listed or state.is_deleting or is_rescheduled


def _note_back(task: LocalTask, state: JobState) -> None:
    """Note whether it is to run again: it waits for that, or was dispatched again already."""
    if not state.is_deleting and (state.is_waiting or state.is_restarted):
        task.note_done(BACK)
    else:
        files.remove(f"{task.private}/{BACK}")


def _queue_limit(task: LocalTask, home: Home) -> float:
    host = task.env["HOSTNAME"]
    return seconds(keeper_of(home).queue_value(home, task.queue, "h_rt", host))

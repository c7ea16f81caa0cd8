"""Tell a person's wish from a local time limit: both come as the same call or signal.

execd counts h_rt and s_rt from the local dispatch, so they strike while the remote job waits
or is still within its own limit, which decides (facts B2.9). With -notify the shepherd sends
USR1 before a suspension and USR2 before a deletion, and execd sends USR1 for s_rt too.
"""

from gridbridge.batch import keeper_of
from gridbridge.errors import GridbridgeError
from gridbridge.methods.task import BACK, Task, seconds
from gridbridge.model.message import Desired
from gridbridge.model.route import Home
from gridbridge.shell import files

SLACK_S = 2.0  # execd's clock starts up to that much before it writes its config file
PATIENCE_S = 3.0  # for an answer of home; the local job has to be gone within 20 s


def is_deleted(task: Task, home: Home) -> bool:
    """Say whether the local job shall really end, and not only its h_rt has passed.

    When home does not answer, the limit that the job itself asked for decides. Whether it is put
    back is noted: how its starter ends may count for its next start.
    """
    try:
        states = keeper_of(home).states(home.within(PATIENCE_S), task.local)
        _note_back(task, states)
        if _is_leaving(task, states):
            return True
        limit_s = min(task.limit("h_rt"), _queue_limit(task, home.within(PATIENCE_S)))
    except GridbridgeError:
        limit_s = task.limit("h_rt")
    return task.ran_for_s() < limit_s - SLACK_S


def is_suspended(task: Task, home: Home) -> bool:
    """Say whether the local job is suspended, by hand, with its queue or by a threshold."""
    return any(letter in keeper_of(home).states(home, task.local) for letter in "sST")


def is_wanted(task: Task, home: Home, noted: str) -> bool:
    """Say whether a signal that the starter got means what -notify says."""
    return is_deleted(task, home) if noted == Desired.DEAD else is_suspended(task, home)


def _is_leaving(task: Task, states: str) -> bool:
    """Read the local job's letters: deleted, gone by force, or rescheduled (sge_status(5))."""
    is_rescheduled = "q" in states or ("R" in states and not task.restarted)
    return not states or "d" in states or is_rescheduled


def _note_back(task: Task, states: str) -> None:
    """Note whether it is to run again: it waits for that, or has been dispatched anew already."""
    if "d" not in states and ("q" in states or "R" in states):
        task.note_done(BACK)
    else:
        files.remove(f"{task.private}/{BACK}")


def _queue_limit(task: Task, home: Home) -> float:
    host = task.env["HOSTNAME"]
    return seconds(keeper_of(home).queue_value(home, task.queue, "h_rt", host))

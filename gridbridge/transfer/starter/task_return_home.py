"""Bring home a waiting task on request, or a job that the remote cluster refuses.

A waiting remote job is held, then queried after a pause, then deleted, because the remote scheduler may start it
between two steps. A started job is not touched.
"""

import time
from collections.abc import Collection

from gridbridge.batch import load_home_job_control, load_refused_job_marker
from gridbridge.decisions.transfer.refused_job_stay_home_request import stay_home_request_changes
from gridbridge.errors import GridbridgeError
from gridbridge.model.job_and_queue_states import JobStateFact
from gridbridge.model.transfer.claim_and_guard import does_job_request_home
from gridbridge.model.transfer_messages_in_spool import TransferFailureCause, TransferMessage, TransferOutcome
from gridbridge.model.transfer_route import AnyClusterAccessSettings, HomeClusterAccessSettings
from gridbridge.shell import safe_files
from gridbridge.transfer.starter import remote_job_state_match
from gridbridge.transfer.starter.local_task import LocalTask, message_timestamp

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.batch.batch_adapter_table import WaitingRemoteJobRecaller


SETTLE_S = 2  # a started job is listed as running within this time
CONFIRM_S = 1  # pause between two queries for a deleted job
DELETING = "deleting"  # the remote job's deletion was sent and is not confirmed
GONE = "gone"
# a waiting job may be RESTARTED: a transfer queue at the remote cluster may have requeued the job
WAITING = {JobStateFact.WAITING, JobStateFact.HELD, JobStateFact.RESTARTED}
KILLS = ("9", "12", "15")  # a deletion sends KILL, USR2 (-notify) or TERM
KILLED = "the remote job had just started and was deleted"


def do_recall_step(
    cell: "WaitingRemoteJobRecaller[AnyClusterAccessSettings]",
    task: LocalTask,
    remote: AnyClusterAccessSettings,
    record: TransferMessage,
    wished: TransferMessage,
) -> TransferMessage | int:
    """Do the next step of a recall; return the task's end, or the seconds until the following step."""
    remote_id, begun = record.remote_id, task.read_recall_note()
    if begun is None:
        begun = wished.with_changes(at=message_timestamp())
        task.write_recall_note(begun)
    if begun.phase == GONE:
        return _confirm_remote_job_gone(cell, remote, remote_id, begun)
    # This query raises RemoteJobNotOurs if another job has the remote id.
    remote_job_state_match.is_remote_job_known(remote, record)
    cell.hold_job(remote, remote_id, gone_is_fine=True)
    state = cell.query_job_state(remote, remote_id)
    if begun.phase == DELETING and (not state.is_listed or state.is_deleting):
        return CONFIRM_S  # the service looks up whether the remote job ran
    if not state.is_listed or not state.facts <= WAITING:
        return _give_up_recall(cell, task, remote, remote_id)
    if time.time() - float(begun.at) < SETTLE_S:
        return SETTLE_S
    return _delete_waiting_remote_job(cell, task, remote, remote_id, begun)


def _delete_waiting_remote_job(
    cell: "WaitingRemoteJobRecaller[AnyClusterAccessSettings]",
    task: LocalTask,
    remote: AnyClusterAccessSettings,
    remote_id: str,
    recall_note: TransferMessage,
) -> TransferMessage | int:
    recall_note = recall_note.with_changes(phase=DELETING)
    task.write_recall_note(recall_note)
    had_waited = cell.delete_waiting_job(remote, remote_id)
    if had_waited is None:
        return _give_up_recall(cell, task, remote, remote_id)
    reason = recall_note.reason if had_waited else f"{recall_note.reason}; {KILLED}"
    recall_note = recall_note.with_changes(phase=GONE, reason=reason)
    task.write_recall_note(recall_note)
    return _confirm_remote_job_gone(cell, remote, remote_id, recall_note)


def task_end_after_recall(recall_note: TransferMessage, verdict: TransferMessage) -> TransferMessage | None:
    """Return the task's end, which is a requeue, if the recall has deleted the remote job; otherwise None.

    The recall counts as the cause only if the remote job was killed, or if its end is unknown.
    """
    is_kill = verdict.outcome == TransferOutcome.SIGNAL and verdict.signal in KILLS
    if recall_note.phase not in (DELETING, GONE) or not (is_kill or verdict.outcome == TransferOutcome.ERROR):
        return None
    is_news = is_kill and recall_note.phase == DELETING  # in phase GONE the reason already names the deletion
    reason = f"{recall_note.reason}; {KILLED}" if is_news else recall_note.reason
    return TransferMessage(outcome=TransferOutcome.REQUEUE, cause=TransferFailureCause.RECALLED, reason=reason)


def _confirm_remote_job_gone(
    cell: "WaitingRemoteJobRecaller[AnyClusterAccessSettings]",
    remote: AnyClusterAccessSettings,
    remote_id: str,
    recall_note: TransferMessage,
) -> TransferMessage | int:
    if cell.query_job_state(remote, remote_id).is_listed:
        return CONFIRM_S
    return TransferMessage(
        outcome=TransferOutcome.REQUEUE, cause=TransferFailureCause.RECALLED, reason=recall_note.reason
    )


def _give_up_recall(
    cell: "WaitingRemoteJobRecaller[AnyClusterAccessSettings]",
    task: LocalTask,
    remote: AnyClusterAccessSettings,
    remote_id: str,
) -> int:
    """Give up a recall and release the started or ended job; return the seconds until the next step."""
    cell.release_job(remote, remote_id, gone_is_fine=True)
    safe_files.remove_file(f"{task.private}/recall")
    return SETTLE_S


NO_HOME_QUEUE = "no local queue can run the job either"


def send_refused_job_home(
    home: HomeClusterAccessSettings, job: str, own_queues: Collection[str], reason: str
) -> TransferMessage:
    """Mark a refused job to stay at home; return the transfer's end: a requeue or the error state.

    The whole array is marked, because qalter(1) -l and -q change jobs, not tasks. Raises GridbridgeError if the job
    can't be marked now.
    """
    own, marker = (load_home_job_control(home).query_job_request(home, job), load_refused_job_marker(home))
    if own.is_pinned_to_transfer_queue:
        raise GridbridgeError(f"{reason}; the job comes home once no task of the job waits for its new starter")
    is_marked = does_job_request_home(own.hard) and marker.REFUSED in dict(own.context)
    variants = stay_home_request_changes(own.hard, own.queues, own_queues)
    if is_marked or marker.keep_refused_job_home(home, job, own, variants, reason):
        return TransferMessage(outcome=TransferOutcome.REQUEUE, reason=reason)
    return TransferMessage(outcome=TransferOutcome.ERROR, reason=f"{reason}; {NO_HOME_QUEUE}")

"""Brings the remote job of a record to the state of the local one, and touches no other job.

An earlier step may have been killed before it noted the id, and the other cluster's numbers may
have begun anew since it was noted.
"""

import time

from gridbridge.batch import submitter
from gridbridge.errors import NotOurs
from gridbridge.model.message import DesiredJobState, MessageKind, StarterMessage, StarterPhase
from gridbridge.model.route import Away
from gridbridge.transfer.starter import method_intents
from gridbridge.transfer.starter.local_task import WARNED, me

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step import StarterStep


def follow(step: "StarterStep", message: StarterMessage | None) -> bool:
    """Bring the remote job to the state that the local one should have; safe to repeat.

    `message` has the state in which the service saw the local job, against its methods' intents.
    False when this has to be tried again: nobody knows yet whether the local job is to end.
    """
    now = method_intents.ago()
    if step.noted and not _is_wanted(step):
        step.noted = ""
    if step.noted == DesiredJobState.DEAD:  # its job has its time: we wait for its end
        step.task.note_done(WARNED)
        delete_remote(step.away, step.record)
        return True
    _learn(step, message, now)
    if step.record.phase == StarterPhase.HELD and not _release(step):
        return False
    if step.record.phase == StarterPhase.RELEASED:
        _act(step, step.task.desired())
    return True


def _is_wanted(step: "StarterStep") -> bool:
    """Say whether the signal that the starter got means what -notify says."""
    from gridbridge.transfer.starter import local_limits  # few get one

    return local_limits.is_wanted(step.task, step.route.home, step.noted)


def _learn(step: "StarterStep", message: StarterMessage | None, now: method_intents.Order) -> None:
    """Note the states that we and the service have seen at home, beside the methods' notes."""
    desired = step.task.desired()
    if (
        not desired and step.record.desired == DesiredJobState.SUSPENDED
    ):  # an adopted one; ours runs
        step.task.learn(DesiredJobState.RUNNING, now)
    if step.noted and step.noted != desired:
        step.task.learn(step.noted, now)
    if message:
        step.task.learn(message.desired, method_intents.ago(time.time() - float(message.at)))


def _release(step: "StarterStep") -> bool:
    """Let the remote job start if the local one is to run; False while nobody knows that.

    Carrying its inputs may take hours, in which it may be suspended or deleted.
    """
    if not _is_to_run(step):
        return True
    _make_sure(step)
    is_carried = _is_carried(step)
    if step.task.is_in_doubt():  # before we look for its deletion, which is noted first
        return False
    if is_carried and _is_to_run(step):
        step.far.release_as(step.away, step.record.remote_id, step.task.env["JOB_NAME"])
        step.note(phase=StarterPhase.RELEASED)
    return True


def _is_to_run(step: "StarterStep") -> bool:
    return step.task.desired() in ("", DesiredJobState.RUNNING)


def _is_carried(step: "StarterStep") -> bool:
    """Carry what it declares there; False when it was deleted meanwhile."""
    if not step.record.stage:
        return True
    from gridbridge.transfer.starter import file_staging

    return file_staging.bring_in(step)


def _act(step: "StarterStep", desired: str) -> None:
    """Suspend or resume the remote job, waiting or running."""
    if desired not in (DesiredJobState.SUSPENDED, DesiredJobState.RUNNING):
        return
    _make_sure(step)
    if desired == DesiredJobState.SUSPENDED:
        step.far.suspend_any(step.away, step.record.remote_id)
    elif not step.task.is_dead():
        step.far.resume_any(step.away, step.record.remote_id)


def _make_sure(step: "StarterStep") -> None:
    """Ask whose job it is, unless this step has submitted it; GridbridgeError if not ours."""
    if not step.is_sure:
        is_there(step.away, step.record)
        step.is_sure = True


def find(remote: Away, record: StarterMessage) -> str:
    """Return our remote job that an earlier step submitted without noting its id."""
    return submitter(remote).find_held(remote, record.transfer, _owner(remote))


def delete_remote(remote: Away, record: StarterMessage) -> None:
    """Delete the remote job of a record if the other cluster can be asked just now.

    These are two requests, whatever the record knows.
    """
    if record.kind != MessageKind.RECORD:
        return
    if not record.remote_id:
        remote_id = find(remote, record)  # which is not somebody else's
    else:
        remote_id = record.remote_id if is_there(remote, record) else ""
    if remote_id:
        submitter(remote).delete(remote, remote_id)


def is_there(remote: Away, record: StarterMessage) -> bool:
    """Say whether the other cluster still knows the job of a record.

    Raises NotOurs when the job of that id is another's, or of another transfer: a
    cluster's numbers may have begun anew.
    """
    owner_account = submitter(remote).owner_and_account(remote, record.remote_id)
    if owner_account[0] and owner_account != (_owner(remote), record.transfer):
        raise NotOurs(
            f"job {record.remote_id} of {record.remote} is {owner_account[0]}'s,"
            f" account {owner_account[1]!r}: not {record.transfer}"
        )
    return bool(owner_account[0])


def _owner(remote: Away) -> str:
    return remote.login.user if remote.login else me()

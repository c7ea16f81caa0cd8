"""The remote job of a record: brought to where the local one should be, or deleted.

A step before us may not have lived to note its id.
"""

import time

from gridbridge.batch import submitter
from gridbridge.methods import asked, limits
from gridbridge.methods.task import me
from gridbridge.model.message import Desired, Kind, Message, Phase
from gridbridge.model.route import Away

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from gridbridge.methods.starter import Step


def follow(step: "Step", seen: Message | None) -> None:
    """Bring the remote job to where the local one should be; safe to repeat.

    `seen` is how the service saw the local job, against all that its methods had told.
    """
    now = asked.ago()
    if step.noted and not limits.is_wanted(step.task, step.route.home, step.noted):
        step.noted = ""
    if step.noted == Desired.DEAD:  # its job has its time: we wait for its end
        step.far.delete(step.away, step.record.remote_id)
        return
    _learn(step, seen, now)
    desired = step.task.desired()
    if step.record.phase == Phase.HELD and desired != Desired.SUSPENDED:
        _release(step)
    if step.record.phase == Phase.RELEASED:
        _act(step, desired)


def _learn(step: "Step", seen: Message | None, now: asked.Order) -> None:
    """Note what was seen beside the methods: by us at home just now, and by the service."""
    desired = step.task.desired()
    if not desired and step.record.desired == Desired.SUSPENDED:  # an adopted one; ours runs
        step.task.learn(Desired.RUNNING, now)
    if step.noted and step.noted != desired:
        step.task.learn(step.noted, now)
    if seen:
        step.task.learn(seen.desired, asked.ago(time.time() - float(seen.at)))


def _release(step: "Step") -> None:
    """Let the remote job start."""
    if _is_carried(step):
        step.far.release_as(step.away, step.record.remote_id, step.task.env["JOB_NAME"])
        step.note(phase=Phase.RELEASED)


def _is_carried(step: "Step") -> bool:
    """Carry what it declares there; False when it was deleted meanwhile."""
    if not step.record.stage:
        return True
    from gridbridge.methods import staging

    return staging.bring_in(step)


def _act(step: "Step", desired: str) -> None:
    """Suspend or resume the remote job, waiting or running."""
    if desired == Desired.SUSPENDED:
        step.far.suspend_any(step.away, step.record.remote_id)
    elif desired == Desired.RUNNING:
        step.far.resume_any(step.away, step.record.remote_id)


def find(away: Away, record: Message) -> str:
    """Return our remote job that an earlier step submitted and did not note."""
    owner = away.login.user if away.login else me()
    return submitter(away).find_held(away, record.transfer, owner)


def delete_remote(away: Away, record: Message) -> None:
    """Delete the remote job of a record if the other cluster can be asked just now."""
    if record.kind == Kind.RECORD and (remote_id := record.remote_id or find(away, record)):
        submitter(away).delete(away, remote_id)

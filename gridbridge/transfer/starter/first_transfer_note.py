"""Writes a starter's first note about a new or adopted transfer."""

from gridbridge.model.transfer_message import StarterPhase, TransferMessage, TransferMessageKind
from gridbridge.state import published_file_formats, spool
from gridbridge.transfer.starter import local_task_guard, submission_step

TYPE_CHECKING = False  # importing typing costs as much time as importing json
if TYPE_CHECKING:
    from gridbridge.transfer.starter.starter_step_context import StarterStepContext


def write_first_transfer_note(step: "StarterStepContext") -> bool:
    """Write a transfer's first note; False while the starter waits for the service.

    Only the starter of a task that was sent before asks the service for the transfer to continue.
    """
    wake = step.record.wake or spool.create_starter_wake_fifo(step.task.our_spool)
    step.record = TransferMessage(remote=step.route.remote, queue=step.task.queue, wake=wake)
    if step.task.was_sent_before() and not _learn_of_the_last(step):
        return False
    if step.route.remote_claim and not step.record.phase:
        from gridbridge.batch import remote_job_claim_script

        step.record = step.record.but(claim=remote_job_claim_script.new_remote_job_claim(step.route.remote_claim))
    phase = step.record.phase or StarterPhase.SUBMITTING
    if step.record.remote_id and step.away.login:
        submission_step.make_remote_staging_folder(step, step.request, step.task.config())
    name = step.record.transfer or str(step.task.transfer(step.route, attempt=1))
    fields = {
        "transfer": name,
        "guard": local_task_guard.choose_local_task_guard(step),
        "submitted": step.request.submitted,
    }
    step.note(kind=TransferMessageKind.RECORD, phase=phase, **fields)
    return True


def _learn_of_the_last(step: "StarterStepContext") -> bool:
    """Ask the service whether to begin a new transfer or to adopt the last transfer."""
    reply = published_file_formats.read_verdict_or_reply(step.task.verdict(step.record.wake))
    if reply is None:
        put_back = "yes" if step.task.restarted else ""
        name = str(step.task.transfer(step.route, attempt=0))
        submitted = step.request.submitted
        step.note(kind=TransferMessageKind.ASK, transfer=name, restarted=put_back, submitted=submitted)
        return False
    if reply.phase:
        _adopt(step, reply)
    fields = {key: value for key, value in vars(reply).items() if value}
    step.record = step.record.but(**fields)
    return True


def _adopt(step: "StarterStepContext", reply: TransferMessage) -> None:
    """Use the route of the queue that began the adopted transfer."""
    step.go_by(step.task.route(reply.queue))
    step.require_same(reply)
    step.may_be_there = True

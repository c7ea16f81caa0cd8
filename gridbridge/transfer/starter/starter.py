"""Run one step of a starter, for the shell sge-methods/starter, as the job's owner.

A step prints `wait SECONDS FIFO VERDICT`, `again SECONDS FIFO VERDICT`, `exit STATUS` or `signal NUMBER`. A note is
written before every act, and every act is safe to repeat, so a killed step is run again.
"""

import os
import sys

from gridbridge import errors
from gridbridge.batch import load_job_recaller
from gridbridge.batch.batch_submission_outcome import NOT_INTERACTIVE, JobSubmissionOutcome
from gridbridge.model.transfer_messages_in_spool import (
    ERROR,
    REQUEUE,
    DesiredLocalJobState,
    StarterPhase,
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    TransferOutcome,
)
from gridbridge.shell.program_runs import SIGKILL
from gridbridge.state import published_file_formats, spool
from gridbridge.transfer.starter import first_note_and_guard, remote_job_submission_step, starter_step_context
from gridbridge.transfer.starter.local_task import BACK, WARNED, LocalTask, message_timestamp
from gridbridge.transfer.starter.remote_job_state_match import (
    delete_remote_job,
    find_held_remote_job,
    match_remote_job_state,
)
from gridbridge.transfer.starter.starter_step_context import StarterStepContext

LOOK_S = 60  # a sleeping starter looks for an answer this often
LOOK = "look"  # argument that the shell passes to a step after a long sleep
DOUBT_S = 1  # pause while the terminate method checks whether the job must end
DELETE_S = 3  # timeout of a deletion, because the terminate method kills a slow starter


def main() -> None:
    """Run the starter's next step, and print the answer for the starter's shell."""
    intent, *arguments = sys.argv[1:]
    task = LocalTask(dict(os.environ))
    answer = end_without_notes_folder(task) or run_next_starter_step(task, intent, tuple(arguments))
    os.write(1, f"{answer}\n".encode())
    os._exit(0)  # the interpreter's own end would take 2 ms


def end_without_notes_folder(task: LocalTask) -> str:
    """Return '' if the folder for the task's notes is usable, otherwise the answer to end or to wait."""
    try:
        task.open_notes_folder()
    except errors.JobTmpdirFull as error:
        return starter_step_context.wait_for_tmpdir_space(task, error)
    except errors.GridbridgeError as error:
        return starter_step_context.put_job_in_error_state(task, str(error))
    task.open_log_file()
    return ""


def run_next_starter_step(task: LocalTask, intent: str, arguments: tuple[str, ...]) -> str:
    """Run the starter's next step; without space for notes, tell the shell to retry."""
    try:
        try:
            step = DueStarterStep(task, intent, arguments)
            try:
                return step.run_due_step()
            except errors.UnstageablePaths as error:
                if step.record.phase == StarterPhase.RELEASED:
                    raise  # the remote job is not deleted, because it may have run
                delete_remote_job(step.away, step.record)
                outcome, cause = TransferOutcome.ERROR, TransferFailureCause.FILES
                end = TransferMessage(outcome=outcome, cause=cause, reason=str(error))
                return step.finish_transfer(end, has_run=False)
        except errors.JobTmpdirFull:
            raise
        except errors.GridbridgeError as error:
            return starter_step_context.end_or_retry_after_error(task, error)
    except errors.JobTmpdirFull as error:
        return starter_step_context.wait_for_tmpdir_space(task, error)


class DueStarterStep(StarterStepContext):
    """The next step of a starter, chosen by the notes of earlier steps."""

    def run_due_step(self) -> str:
        """Do the starter's next step, also after a killed step; return the answer for the shell."""
        if closed := self.task.read_closing_note():
            return self.finish_transfer(closed, has_run=False)
        if self.task.was_local_job_deleted():
            return self.end_deleted_job()
        if self.noted == LOOK:
            return self.resend_record()
        if remote_job_submission_step.is_interactive_job(self.task.env):
            return starter_step_context.put_job_in_error_state(self.task, NOT_INTERACTIVE)
        if self.record.kind != TransferMessageKind.RECORD:
            self.task.require_tmpdir_space()
            if not first_note_and_guard.write_first_transfer_note(self):
                return starter_step_context.retry_step_later(self.task, self.record)
        first_note_and_guard.guard_running_local_task(self)
        if self.record.phase == StarterPhase.SUBMITTING and (refusal := self.find_or_submit_remote_job()):
            return refusal
        return self.continue_submitted_job()

    def continue_submitted_job(self) -> str:
        """Do a submitted job's next step, which depends on the service's answer and the local job's state."""
        message = published_file_formats.read_verdict_or_reply(self.task.verdict_path(self.record.transfer))
        agreement = message if message and message.outcome == TransferOutcome.AGREE else None
        if answer := self.obey_service_verdict(None if agreement else message):
            return answer
        is_done = match_remote_job_state(self, agreement)
        if self.task.was_local_job_deleted():
            return self.end_deleted_job()
        if not is_done:
            return starter_step_context.tell_starter_shell_to_sleep(self.task, "again", DOUBT_S, self.record)
        return starter_step_context.retry_step_later(self.task, self.record) if agreement else self.sleep_until_woken()

    def obey_service_verdict(self, verdict: TransferMessage | None) -> str:
        """Act on the result or request that the service published; return '' if neither exists."""
        begun = self.task.read_recall_note()
        request = verdict or begun
        if request and request.outcome == TransferOutcome.RECALL:
            return self.recall_task(request)
        if verdict is None:
            return ""
        if begun:
            from gridbridge.transfer.starter import task_return_home

            if home := task_return_home.task_end_after_recall(begun, verdict):
                return self.finish_transfer(home, has_run=False)
        return self.finish_transfer(verdict, has_run=not verdict.claim)

    def recall_task(self, request: TransferMessage) -> str:
        """Bring the task home, unless its remote job has started."""
        from gridbridge.transfer.starter import task_return_home

        if (system := load_job_recaller(self.away)) is None:
            return self.sleep_until_woken()  # the service withdraws a request that is not carried out
        result = task_return_home.do_recall_step(system, self.task, self.away, self.record, request)
        if isinstance(result, TransferMessage):
            return self.finish_transfer(result, has_run=False)
        return starter_step_context.tell_starter_shell_to_sleep(self.task, "again", result, self.record)

    def resend_record(self) -> str:
        """Send the transfer's note again, and restore FIFO and claim key, because the spool may have been emptied."""
        spool.ensure_starter_wake_fifo(self.record.wake, self.task.our_spool)
        self.save_and_send_record()
        remote_job_submission_step.write_claim_key(self)
        return self.sleep_until_woken()

    def sleep_until_woken(self) -> str:
        """Tell the shell to sleep until the service or a method wakes the starter."""
        return starter_step_context.tell_starter_shell_to_sleep(self.task, "wait", LOOK_S, self.record)

    def find_or_submit_remote_job(self) -> str:
        """Find or submit the held remote job; return '', or an answer for the shell after a failure."""
        try:
            remote_id = find_held_remote_job(self.away, self.record) if self.may_be_there else ""
            answer = None if remote_id else remote_job_submission_step.submit_remote_job(self)
        except errors.SshLoginRefused as error:
            if not remote_job_submission_step.is_owner_ssh_login_barred(self):
                raise
            self.save_and_send_record(stage="")
            return self.end_refused_job(str(error), TransferFailureCause.BARRED)
        except errors.UnmappableRequest as error:
            return self.end_refused_job(str(error), TransferFailureCause.UNMAPPABLE)
        if answer:
            cause = remote_job_submission_step.CAUSES.get(answer.result, "")
            if answer.result in (JobSubmissionOutcome.REFUSED, JobSubmissionOutcome.DENIED):
                return self.end_refused_job(f"{self.route.remote} refused the job: {answer.reason}", cause)
            if answer.result != JobSubmissionOutcome.ACCEPTED:
                raise errors.TemporaryJobRefusal(answer.reason, cause)
            remote_id = answer.remote_id
        self.is_sure = True
        self.save_and_send_record(phase=StarterPhase.HELD, remote_id=remote_id)
        return ""

    def end_refused_job(self, reason: str, cause: str) -> str:
        """End the starter of a job that the remote cluster refuses; the job is requeued or fails."""
        from gridbridge.transfer.starter import task_return_home

        home, own_queues = (
            self.route.home_cluster_access,
            published_file_formats.list_queues_with_routes(self.task.published),
        )
        verdict = task_return_home.send_refused_job_home(home, str(self.task.job), own_queues, reason)
        return self.finish_transfer(verdict.with_changes(cause=cause), has_run=False)

    def end_deleted_job(self) -> str:
        """Delete the remote job and end the starter by SIGKILL, as `qdel` would.

        For a rescheduled job the starter exits with 99, because Grid Engine takes this end for the end of the job's
        next run.
        """
        try:
            delete_remote_job(self.away.with_time_limit(DELETE_S), self.record)
        except errors.GridbridgeError as error:
            starter_step_context.log_step_error(error)
        return f"exit {REQUEUE}" if self.task.is_step_noted_done(BACK) else f"signal {SIGKILL}"

    def finish_transfer(self, verdict: TransferMessage, has_run: bool = True) -> str:
        """End the starter by the result; a task that must run again may start at home from now on."""
        if self.record.stage:
            from gridbridge.transfer.starter import file_staging

            if not file_staging.fetch_remote_outputs_home(self, has_run):
                return self.end_deleted_job()
        status = starter_step_context.verdict_exit_status(verdict)
        if status in (REQUEUE, ERROR):
            first_note_and_guard.remove_task_guard(self)
        if verdict.outcome == TransferOutcome.ERROR:
            starter_step_context.write_job_error_reason(self.task, verdict.reason)
        end = {key: getattr(verdict, key) for key in ("outcome", "exit_status", "signal", "cause", "reason")}
        desired = DesiredLocalJobState.DEAD if self.task.is_step_noted_done(WARNED) else ""
        closed = self.record.with_changes(
            kind=TransferMessageKind.CLOSED, desired=desired, at=message_timestamp(), **end
        )
        self.task.close_transfer(closed)
        if self.task.is_step_noted_done(WARNED) and self.task.is_step_noted_done(BACK):
            return f"exit {REQUEUE}"
        return f"signal {verdict.signal}" if verdict.outcome == TransferOutcome.SIGNAL else f"exit {status}"

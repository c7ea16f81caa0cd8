"""One step of a transfer, run by sge-methods/starter as the job's owner.

A step reads the notes of the step before, does what is due, and answers the shell in one line:
`wait SECONDS FIFO VERDICT`, `again SECONDS FIFO VERDICT`, `exit STATUS` or `signal NUMBER`.
Every act is preceded by a note of the intent and safe to repeat, so a step that was killed is
simply run again (Transfer Queues how-to; design: exactly once).
"""

import os
import sys

from gridbridge.batch import recaller_of
from gridbridge.batch.submission_result import NOT_INTERACTIVE, Result
from gridbridge.errors import (
    CommandFailed,
    GridbridgeError,
    NoRoom,
    NoRoute,
    NotAccepted,
    OwnerBarred,
    UnmappableRequest,
    UnstageablePaths,
)
from gridbridge.model.message import (
    ERROR,
    REQUEUE,
    DesiredJobState,
    FailureCause,
    MessageKind,
    StarterMessage,
    StarterPhase,
    TransferOutcome,
)
from gridbridge.shell.runner import SIGKILL
from gridbridge.state import published_values, spool
from gridbridge.transfer.starter import (
    first_note,
    step_answers,
    submission_step,
    task_guard,
)
from gridbridge.transfer.starter import (
    remote_job_spec as job,
)
from gridbridge.transfer.starter.local_task import BACK, WARNED, LocalTask, now
from gridbridge.transfer.starter.remote_state import delete_remote, follow
from gridbridge.transfer.starter.starter_step import StarterStep

LOOK_S = 60  # how often a starter looks at its verdict without being woken
LOOK = "look"  # the shell's word for a long sleep without any intent
DOUBT_S = 1  # between two checks whether a terminate method knows what home wants
DELETE_S = 3  # for each of two commands: terminate_method kills us after a while


def main() -> None:
    """Do the step that is due, for the shell that reads our answer."""
    intent, *arguments = sys.argv[1:]
    task = LocalTask(dict(os.environ))
    answer = give_up(task) or take(task, intent, tuple(arguments))
    os.write(1, f"{answer}\n".encode())
    os._exit(0)  # nothing is left to flush, and taking the interpreter down costs 2 ms


def give_up(task: LocalTask) -> str:
    """Answer that the job is to enter the error state if there is no place even for our notes."""
    try:
        task.open_notes()
    except NoRoom as error:
        return step_answers.wait_for_room(task, error)
    except GridbridgeError as error:
        return step_answers.end_in_error(task, str(error))
    task.open_log()
    return ""


def take(task: LocalTask, intent: str, arguments: tuple[str, ...]) -> str:
    """Do the step that is due; a step that failed is tried again."""
    try:
        return _try(task, intent, arguments)
    except NoRoom as error:
        return step_answers.wait_for_room(task, error)


def _try(task: LocalTask, intent: str, arguments: tuple[str, ...]) -> str:
    try:
        step = Starter(task, intent, arguments)
        try:
            return step.take()
        except UnstageablePaths as error:
            if step.record.phase == StarterPhase.RELEASED:
                raise  # its job has run, or runs
            return step.unstageable(error)
    except NoRoom:
        raise
    except NoRoute as error:
        step_answers.complain(error)
        return step_answers.end_nowhere(task, error)
    except CommandFailed as error:
        step_answers.complain(error)
        return step_answers.end_unable(task, error) or step_answers.excuse(task, error)
    except GridbridgeError as error:
        step_answers.complain(error)
        return step_answers.excuse(task, error)


class Starter(StarterStep):
    """Does what is due for a transfer, given the notes of the steps before."""

    def take(self) -> str:
        """Do what is due and return the answer; any step before us may have been killed."""
        if closed := self.task.closed():
            return self.finish(closed, has_run=False)
        if self.task.is_dead():
            return self.end_deleted()
        if self.noted == LOOK:
            return self.send_record_again()
        if job.is_interactive(self.task.env):
            return step_answers.end_in_error(self.task, NOT_INTERACTIVE)
        if self.record.kind != MessageKind.RECORD:
            self.task.require_room()
            if not first_note.begin(self):
                return step_answers.pause(self.task, self.record)
        task_guard.put(self)
        if self.record.phase == StarterPhase.SUBMITTING and (refusal := self.submit()):
            return refusal
        return self.go_on()

    def go_on(self) -> str:
        """Do what is due for a job that is there."""
        message = published_values.read_message(self.task.verdict(self.record.transfer))
        agreement = message if message and message.outcome == TransferOutcome.AGREE else None
        if answer := self.obey_service(None if agreement else message):
            return answer
        is_done = follow(self, agreement)
        if self.task.is_dead():
            return self.end_deleted()
        if not is_done:
            return step_answers.sleep(self.task, "again", DOUBT_S, self.record)
        return step_answers.pause(self.task, self.record) if agreement else self.wait()

    def obey_service(self, verdict: StarterMessage | None) -> str:
        """Obey a verdict, a wish of the service, or a recall that began; empty for none."""
        begun = self.task.begun_recall()
        request = verdict or begun
        if request and request.outcome == TransferOutcome.RECALL:
            return self.recall(request)
        if verdict is None:
            return ""
        if begun:
            from gridbridge.transfer.starter import recall_step as recall

            if home := recall.settled(begun, verdict):
                return self.finish(home, has_run=False)
        return self.finish(verdict, has_run=not verdict.claim)

    def recall(self, request: StarterMessage) -> str:
        """Bring the task home if its remote job has not started."""
        from gridbridge.transfer.starter import recall_step as recall

        if (system := recaller_of(self.away)) is None:
            return self.wait()  # the service takes such a wish back
        result = recall.recall(system, self.task, self.away, self.record, request)
        if isinstance(result, StarterMessage):
            return self.finish(result, has_run=False)
        return step_answers.sleep(self.task, "again", result, self.record)

    def send_record_again(self) -> str:
        """Send the record again: a service that lost or refused it would bring no end home.

        An intent that came meanwhile is the next step's, as this one may be killed. If the
        spool was wiped, the FIFO and the claim's key are gone, too.
        """
        spool.keep_wake(self.record.wake, self.task.our_spool)
        self.note()
        submission_step.keep_key(self)
        return self.wait()

    def wait(self) -> str:
        """Answer that nothing is due until the service or a method wakes the shell."""
        return step_answers.sleep(self.task, "wait", LOOK_S, self.record)

    def submit(self) -> str:
        """Submit the job, held; return an answer for the shell only when that failed.

        An earlier step may have been killed after it submitted the job, before it noted the id: so
        the job is looked up.
        """
        try:
            remote_id = submission_step.find_again(self) if self.may_be_there else ""
            answer = None if remote_id else submission_step.send(self)
        except OwnerBarred as error:
            return self.refused(str(error), FailureCause.BARRED)
        except UnmappableRequest as error:
            return self.refused(str(error), FailureCause.UNMAPPABLE)
        if answer:
            cause = submission_step.CAUSES.get(answer.result, "")
            if answer.result in (Result.REFUSED, Result.DENIED):
                return self.refused(f"{self.route.remote} refused it: {answer.reason}", cause)
            if answer.result != Result.ACCEPTED:
                raise NotAccepted(answer.reason, cause)
            remote_id = answer.remote_id
        self.is_sure = True
        self.note(phase=StarterPhase.HELD, remote_id=remote_id)
        return ""

    def refused(self, reason: str, cause: str) -> str:
        """End a job that can't go there: it runs at home, or nowhere."""
        from gridbridge.transfer.acts import refused_jobs

        own_queues = published_values.queues(self.task.published)
        job = str(self.task.job)
        verdict = refused_jobs.refused(self.route.home, job, own_queues, reason)
        return self.finish(verdict.but(cause=cause), has_run=False)

    def unstageable(self, error: UnstageablePaths) -> str:
        """End a job whose files can't be carried: it enters the error state, for its owner."""
        delete_remote(self.away, self.record)
        end = StarterMessage(
            outcome=TransferOutcome.ERROR, cause=FailureCause.FILES, reason=str(error)
        )
        return self.finish(end, has_run=False)

    def end_deleted(self) -> str:
        """Delete the remote job and end by SIGKILL, as `qdel` would have ended it at home.

        One that was put back ends with 99: while its first run ends, execd takes no second one,
        and Grid Engine takes this end for that of the second. The service,
        which has the intent from the spool, closes the transfer once the remote job is really
        gone, and deletes what we could not.
        """
        try:
            delete_remote(self.away.within(DELETE_S), self.record)
        except GridbridgeError as error:
            step_answers.complain(error)
        return f"exit {REQUEUE}" if self.task.is_done(BACK) else f"signal {SIGKILL}"

    def finish(self, verdict: StarterMessage, has_run: bool = True) -> str:
        """End as the verdict says; a task that is to run again must not stay held."""
        if not self.is_home(has_run):
            return self.end_deleted()
        if step_answers.status(verdict) in (REQUEUE, ERROR):
            task_guard.take_back(self)
        if verdict.outcome == TransferOutcome.ERROR:
            step_answers.blame(self.task, verdict.reason)
        self.task.close(
            self.record.but(
                kind=MessageKind.CLOSED,
                outcome=verdict.outcome,
                exit_status=verdict.exit_status,
                signal=verdict.signal,
                cause=verdict.cause,
                reason=verdict.reason,
                desired=DesiredJobState.DEAD if self.task.is_done(WARNED) else "",
                at=now(),
            )
        )
        is_back = self.task.is_done(WARNED) and self.task.is_done(BACK)
        return f"exit {REQUEUE}" if is_back else step_answers.end(verdict)

    def is_home(self, has_run: bool) -> bool:
        """Remove its files there; False when it was deleted before all came home."""
        if not self.record.stage:
            return True
        from gridbridge.transfer.starter import file_staging

        return file_staging.settle(self, has_run)

"""Represent the local task of a starter or method: execd's files and the starter's own notes.

The notes in TMPDIR/.gridbridge are removed with the task; the spool has copies of notes that must outlive the task.
"""

import os
import pwd
import time

from gridbridge.batch.gridengine.job_request_parser import parse_execd_config, parse_execd_environment
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import PUBLISHED, SPOOL
from gridbridge.model.transfer_messages_in_spool import (
    MAX_BYTES,
    DesiredLocalJobState,
    TransferMessage,
    TransferMessageKind,
    encode_message_cutting_reason,
)
from gridbridge.model.transfer_name import TransferAttemptId
from gridbridge.model.transfer_route import AnyClusterAccessSettings, TransferRoute
from gridbridge.shell import safe_files
from gridbridge.state import published_file_formats, spool
from gridbridge.transfer.starter import task_notes

NO_TASK = "undefined"  # SGE_TASK_ID of a job that is no array
GUARDED = "guarded"  # note that a hold or start time keeps the task from starting again
WARNED = "warned"  # note that a -notify signal announced the deletion of the job
BACK = "back"  # note that the task was rescheduled (qmod -rj)
INTENT = "intent"  # file that tells the starter's shell about a method's new note
UNLIMITED = ("", "INFINITY", "NONE")
WHY_CHARACTERS = 400  # longest reason in a message, in characters
INFINITE_S = float("inf")


class LocalTask:
    def __init__(self, env: dict[str, str], spool_dir: str = SPOOL, published_dir: str = PUBLISHED) -> None:
        self.env = env
        self.our_spool = spool_dir
        self.published = published_dir
        self.job = int(env["JOB_ID"])
        self.task = 0 if env["SGE_TASK_ID"] == NO_TASK else int(env["SGE_TASK_ID"])
        self.queue = env["QUEUE"]
        self.restarted = env.get("RESTARTED", "0") != "0"
        self.spool_dir = env["SGE_JOB_SPOOL_DIR"]
        self.private = f"{env['TMPDIR']}/.gridbridge"

    def open_notes_folder(self) -> None:
        """Create the task's private folder for notes, before the first step or method.

        Another user may have made TMPDIR, so other users lose write access to TMPDIR, and their files are moved aside.
        """
        folder = self.env["TMPDIR"]
        try:
            safe_files.forbid_others_to_write(folder)
            safe_files.make_private_folder(self.private)
        except OSError as error:
            why = GridbridgeError(f"can't write to {folder}: {error.strerror}")
            raise task_notes.tmpdir_full_error_of(error, folder) or why from error

    def open_log_file(self) -> None:
        """Send standard error to the task's own log, unless TMPDIR is full."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            log = os.open(f"{self.private}/log", flags, 0o600)
        except OSError:
            return
        os.dup2(log, 2)
        os.close(log)

    @property
    def local_task_id(self) -> str:
        """The task's id for Grid Engine's commands, such as 12.3."""
        return TransferAttemptId("", self.job, self.task, 0).local_job_or_task_id

    def read_route(self, queue: str = "") -> TransferRoute:
        """Return the published route of a transfer queue, by default of the task's own queue."""
        return published_file_formats.read_published_route(queue or self.queue, self.published)

    def remote_cluster_access(self, route: TransferRoute) -> AnyClusterAccessSettings:
        """Return the access to a remote cluster; for a cluster reached by ssh, with the owner's login."""
        return (
            route.remote_cluster_access_as_user(own_login_name()) if route.remote_ssh else route.remote_cluster_access
        )

    def verdict_path(self, transfer: str) -> str:
        return published_file_formats.transfer_verdict_path(transfer, os.getuid(), self.published)

    def was_sent_before(self) -> bool:
        """Say whether the task had a starter before; its history tells this even after qmod -cj unset RESTARTED."""
        unproved = published_file_formats.unverified_history_path(self.local_task_id, os.getuid(), self.published)
        proved = published_file_formats.verified_job_history_path(self.local_task_id, self.published)
        return self.restarted or os.path.exists(unproved) or os.path.exists(proved)

    def wake_starter(self) -> None:
        record = self.read_transfer_note()
        if record and record.wake:
            spool.wake_starter(record.wake, self.our_spool)

    def transfer_name(self, route: TransferRoute, attempt: int) -> TransferAttemptId:
        """Return the name of the task's transfer number `attempt`; 0 stands for an unknown attempt."""
        return TransferAttemptId(route.cluster, self.job, self.task, attempt)

    def read_execd_config(self) -> dict[str, str]:
        """Return execd's settings of the job (active_jobs/N.T/config)."""
        return parse_execd_config(read_whole_file(f"{self.spool_dir}/config"))

    def read_job_environment(self) -> dict[str, str]:
        """Return the job's environment from execd's file, with long values uncut."""
        return parse_execd_environment(read_whole_file(f"{self.spool_dir}/environment"))

    def read_transfer_note(self) -> TransferMessage | None:
        """Return the transfer note, the starter's last message about the transfer; None before the first act."""
        return task_notes.read_note_message(f"{self.private}/record")

    def report_transfer_to_service_and_save(self, record: TransferMessage) -> None:
        """Send a message about the transfer to the service, and then save it as the transfer note."""
        spool.send_spool_message(record, self.our_spool)
        self._write_message_note("record", record)

    def report_retry_reason(self, why: str, cause: str) -> TransferMessage:
        """Tell the service why the starter retries a step; return the transfer note with the reason."""
        record = self.read_transfer_note() or TransferMessage()
        why = f"tried in vain: {why}".replace("\n", " ")[:WHY_CHARACTERS]
        excused = record.with_changes(cause=cause, reason=why)
        if record.kind != TransferMessageKind.RECORD or excused == record:
            return record
        excused.at = message_timestamp()
        try:
            self.report_transfer_to_service_and_save(excused)
        except GridbridgeError:
            return excused  # the spool is full; the next retry tells the reason
        return excused

    def was_local_job_deleted(self) -> bool:
        """Say whether the local job was deleted; a noted deletion is final."""
        return os.path.exists(f"{self.private}/dead")

    def note_intent(self, desired: str) -> None:
        """Note a method's desired state of the local job; tell the service of a deletion at once."""
        if desired == DesiredLocalJobState.DEAD:
            self.note_step_done("dead")
        else:
            task_notes.note_method_intent(self.private, desired, task_notes.process_start_ticks_and_pid(os.getppid()))
        self.note_step_done(INTENT)
        if desired == DesiredLocalJobState.DEAD:
            self.report_intent(desired)

    def report_intent(self, desired: str) -> None:
        """Tell the service the desired state of the local job, if the task has a transfer."""
        at = message_timestamp()
        self._send_message_about_transfer(TransferMessage(kind=TransferMessageKind.INTENT, desired=desired, at=at))

    def report_passed_time_limit(self) -> None:
        """Tell the service that the job continues although its time limit at home has passed."""
        self._send_message_about_transfer(TransferMessage(kind=TransferMessageKind.SPARED, at=message_timestamp()))

    def _send_message_about_transfer(self, news: TransferMessage) -> None:
        record = self.read_transfer_note()
        if record and record.kind == TransferMessageKind.RECORD:  # with an ASK message the task has no transfer yet
            spool.send_spool_message(news.with_changes(transfer=record.transfer), self.our_spool)

    def read_desired_state(self) -> str:
        """Return the local job's desired state in the latest note of a method; '' without a note.

        The service learns of a new note before the starter acts. If a method writes a note in the meantime, it creates
        the mark file INTENT again, so that the starter's next step handles the note.
        """
        if self.was_local_job_deleted():
            return DesiredLocalJobState.DEAD
        safe_files.remove_file(f"{self.private}/{INTENT}")
        note = task_notes.newest_intent_note(self.private)
        desired = task_notes.desired_state_in_note(note)
        if note.startswith(task_notes.NEW_INTENT_PREFIX):
            self.report_intent(desired)
            task_notes.mark_intent_reported(self.private, note)
        return desired

    def note_observed_state(self, desired: str, order: task_notes.NoteSortKey) -> None:
        """Write the observed state as a method's note, unless a method's note is of the same time or later."""
        if task_notes.is_intent_note_older(task_notes.newest_intent_note(self.private), order):
            task_notes.note_method_intent(self.private, desired, order)

    def close_transfer(self, outcome: TransferMessage) -> None:
        """Tell the service to close a transfer, because no remote job exists any more."""
        self._write_message_note("closed", outcome)
        spool.send_spool_message(outcome, self.our_spool)

    def read_recall_note(self) -> TransferMessage | None:
        """Return the note about the task's recall; None if the task is not on its way home."""
        return task_notes.read_note_message(f"{self.private}/recall")

    def write_recall_note(self, recall: TransferMessage) -> None:
        self._write_message_note("recall", recall)

    def read_closing_note(self) -> TransferMessage | None:
        """Return how the task's transfer ended; None while the transfer is open."""
        end = task_notes.read_note_message(f"{self.private}/closed")
        return end if end and end.has_complete_outcome() else None

    def read_time_limit_s(self, name: str) -> float:
        """Return a noted time limit in seconds; infinite without a note."""
        try:
            return parse_time_limit_s(read_whole_file(f"{self.private}/{name}").decode())
        except (GridbridgeError, ValueError):
            return INFINITE_S

    def is_step_noted_done(self, step: str) -> bool:
        return os.path.exists(f"{self.private}/{step}")

    def note_step_done(self, step: str) -> None:
        task_notes.write_note(f"{self.private}/{step}")

    def local_run_time_s(self) -> float:
        """Return the local job's run time in seconds; execd writes `config` at the job's start."""
        return time.time() - os.stat(f"{self.spool_dir}/config").st_mtime

    def count_starter_act_try(self, of: str = "tries") -> int:
        """Count another try of an act of the starter; return the number of earlier tries."""
        path = f"{self.private}/{of}"
        before = int(task_notes.read_note_number(path) or 0)
        task_notes.write_note(path, b"%d" % (before + 1))
        return before

    def seconds_since_first_note(self, note: str) -> float:
        """Return the seconds since the first call with this `note`; the first call writes the note."""
        path, now_s = f"{self.private}/{note}", time.clock_gettime(time.CLOCK_BOOTTIME)
        if (first_s := task_notes.read_note_number(path)) is None:
            first_s = now_s
            task_notes.write_note(path, b"%d" % now_s)
        return now_s - first_s

    def require_tmpdir_space(self) -> None:
        """Raise JobTmpdirFull unless TMPDIR has space for notes; called before a job is sent."""
        path = f"{self.private}/tried"
        task_notes.write_note(path, bytes(MAX_BYTES))  # the longest possible note
        safe_files.remove_file(path)

    def write_shepherd_error(self, reason: str) -> None:
        """Write a reason to the shepherd's error file, for `qstat -j` and job mail."""
        with open(f"{self.spool_dir}/error", "w", encoding="utf-8", errors="surrogateescape") as error:
            error.write(f"gridbridge: {reason}\n")

    def _write_message_note(self, name: str, message: TransferMessage) -> None:
        task_notes.write_note(f"{self.private}/{name}", encode_message_cutting_reason(message))


def own_login_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def message_timestamp() -> str:
    return f"{time.time():.3f}"


def parse_time_limit_s(limit: str) -> float:
    """Parse a time limit, `[[hours:]minutes:]seconds` or INFINITY (sge_types(5)), into seconds."""
    if limit.upper() in UNLIMITED:
        return INFINITE_S
    total = 0.0
    for part in limit.split(":"):
        total = total * 60 + float(part or 0)
    return total


def read_whole_file(path: str) -> bytes:
    """Read a file; raise GridbridgeError for an unreadable file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error

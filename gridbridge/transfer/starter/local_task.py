"""The local task that a hot program works for: execd's variables and files, and our own notes.

Our notes lie in TMPDIR/.gridbridge, which belongs to the job's owner and goes with the task; the
spool has a copy of everything that must outlive it.
"""

import os
import pwd
import time

from gridbridge.batch.gridengine.submitted_request import read_config, read_environment
from gridbridge.errors import GridbridgeError
from gridbridge.model.ids import TransferId
from gridbridge.model.message import DesiredJobState, MessageKind, StarterMessage, encode_short
from gridbridge.model.places import PUBLISHED, SPOOL
from gridbridge.model.route import Away, TransferRoute
from gridbridge.shell import files
from gridbridge.state import published_values, spool
from gridbridge.transfer.starter import method_intents, task_notes

NO_TASK = "undefined"  # SGE_TASK_ID of a job that is no array
GUARDED = "guarded"  # the step that gives the local task its guard
WARNED = "warned"  # the step that deletes the remote job before our time is over (-notify)
BACK = "back"  # the note that home has put the task back (qmod -rj)
INTENT = "intent"  # the mark that a method has noted something: the starter's shell looks for it
UNLIMITED = ("", "INFINITY", "NONE")
WHY_CHARACTERS = 400  # of a reason in a record
INFINITE_S = float("inf")


class LocalTask:
    """One task of a local job in a transfer queue, and where it meets the service."""

    def __init__(
        self, env: dict[str, str], spool_dir: str = SPOOL, published_dir: str = PUBLISHED
    ) -> None:
        self.env = env
        self.our_spool = spool_dir
        self.published = published_dir
        self.job = int(env["JOB_ID"])
        self.task = 0 if env["SGE_TASK_ID"] == NO_TASK else int(env["SGE_TASK_ID"])
        self.queue = env["QUEUE"]
        self.restarted = env.get("RESTARTED", "0") != "0"
        self.spool_dir = env["SGE_JOB_SPOOL_DIR"]
        self.private = f"{env['TMPDIR']}/.gridbridge"

    def open_notes(self) -> None:
        """Make the folder of our notes; starter or method, the first of them does.

        Anybody may have made TMPDIR before execd, which then made it the job owner's as it was:
        from now on nobody else puts anything there, and what is not ours is moved aside.
        """
        folder = self.env["TMPDIR"]
        try:
            files.shut_out_others(folder)
            files.make_own_folder(self.private)
        except OSError as error:
            why = GridbridgeError(f"can't write to {folder}: {error.strerror}")
            raise task_notes.lack(error, folder) or why from error

    def open_log(self) -> None:
        """Write our errors to a file beside the notes, if there is room."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            log = os.open(f"{self.private}/log", flags, 0o600)
        except OSError:
            return
        os.dup2(log, 2)
        os.close(log)

    @property
    def local(self) -> str:
        """The task as Grid Engine's commands take it."""
        return TransferId("", self.job, self.task, 0).local

    def route(self, queue: str = "") -> TransferRoute:
        """Return where the task's queue leads, or the one in which its transfer began."""
        return published_values.read_route(queue or self.queue, self.published)

    def remote_system(self, route: TransferRoute) -> Away:
        """Return the cluster that the task's jobs run in, as their owner reaches it."""
        return route.away_as(me()) if route.remote_ssh else route.away

    def verdict(self, transfer: str) -> str:
        """Return where the verdict on a transfer of ours appears."""
        return published_values.verdict_path(transfer, os.getuid(), self.published)

    def was_sent_before(self) -> bool:
        """Say whether a transfer of this task is known, open or over.

        Grid Engine sets RESTARTED for a task that was rescheduled, not for one whose error state
        was cleared (qmod -cj).
        """
        unproved = published_values.told_path(self.local, os.getuid(), self.published)
        proved = published_values.history_path(self.local, self.published)
        return self.restarted or os.path.exists(unproved) or os.path.exists(proved)

    def wake(self) -> None:
        """Wake the starter, if it sleeps already."""
        record = self.record()
        if record and record.wake:
            spool.wake(record.wake, self.our_spool)

    def transfer(self, route: TransferRoute, attempt: int) -> TransferId:
        """Return the name of this task's n-th transfer; 0 asks which it should be."""
        return TransferId(route.cluster, self.job, self.task, attempt)

    def config(self) -> dict[str, str]:
        """Return execd's view of the job (active_jobs/N.T/config)."""
        return read_config(_whole(f"{self.spool_dir}/config"))

    def environment(self) -> dict[str, str]:
        """Return the job's variables as execd was given them, long ones whole."""
        return read_environment(_whole(f"{self.spool_dir}/environment"))

    def record(self) -> StarterMessage | None:
        """Return how far the transfer has come, None before its first act."""
        return task_notes.read(f"{self.private}/record")

    def save(self, record: StarterMessage) -> None:
        """Note how far the transfer has come; the service learns it before anything follows."""
        spool.send(record, self.our_spool)
        self._keep("record", record)

    def excuse(self, why: str, cause: str) -> StarterMessage:
        """Tell the service why a step is tried again, if the spool has room; return the record."""
        record = self.record() or StarterMessage()
        why = f"tried in vain: {why}".replace("\n", " ")[:WHY_CHARACTERS]
        excused = record.but(cause=cause, reason=why)
        if record.kind != MessageKind.RECORD or excused == record:
            return record
        excused.at = now()
        try:
            self.save(excused)
        except GridbridgeError:
            return excused  # a full disk: the next try tells it
        return excused

    def is_dead(self) -> bool:
        """Say whether the local job was deleted; nothing overwrites that note."""
        return os.path.exists(f"{self.private}/dead")

    def doubt(self) -> str:
        """Note that this process asks whether the local job is to end; return the note."""
        self.open_notes()
        return method_intents.doubt(self.private)

    def is_in_doubt(self) -> bool:
        """Say whether a process asks that now."""
        return method_intents.is_in_doubt(self.private)

    def ask(self, desired: str) -> None:
        """Note an intent for the starter; the service has to know of a deletion.

        The starter, which knows the order, reports all others.
        """
        if desired == DesiredJobState.DEAD:
            self.note_done("dead")
        else:
            method_intents.note(self.private, desired, method_intents.begun(os.getppid()))
        self.note_done(INTENT)
        if desired == DesiredJobState.DEAD:
            self.report_intent(desired)

    def report_intent(self, desired: str) -> None:
        """Tell the service the intent, if there is a transfer."""
        self._send(StarterMessage(kind=MessageKind.INTENT, desired=desired, at=now()))

    def tell_spared(self) -> None:
        """Tell the service, and so `gridbridge why`, that a local time limit ended nothing."""
        self._send(StarterMessage(kind=MessageKind.SPARED, at=now()))

    def _send(self, news: StarterMessage) -> None:
        record = self.record()
        if record and record.kind == MessageKind.RECORD:  # a question has no transfer yet
            spool.send(news.but(transfer=record.transfer), self.our_spool)

    def desired(self) -> str:
        """Return the last intent (message.Desired), empty when there never was one.

        The service learns a new intent before anything follows from it. A note that comes meanwhile
        makes the mark anew, and is left to the next step.
        """
        if self.is_dead():
            return DesiredJobState.DEAD
        files.remove(f"{self.private}/{INTENT}")
        note = method_intents.newest(self.private)
        desired = method_intents.desired_of(note)
        if not method_intents.is_told(note):
            self.report_intent(desired)
            method_intents.settle(self.private, note)
        return desired

    def learn(self, desired: str, order: method_intents.Order) -> None:
        """Note an intent that no method noted, because the job was seen in that state, and when."""
        if method_intents.is_before(method_intents.newest(self.private), order):
            method_intents.note(self.private, desired, order)

    def close(self, outcome: StarterMessage) -> None:
        """Report that the transfer has no job any more: the service closes it."""
        self._keep("closed", outcome)
        spool.send(outcome, self.our_spool)

    def begun_recall(self) -> StarterMessage | None:
        """Return the recall that was begun, None when there is none."""
        return task_notes.read(f"{self.private}/recall")

    def keep_recall(self, recall: StarterMessage) -> None:
        """Note how far a recall has come."""
        self._keep("recall", recall)

    def forget_recall(self) -> None:
        """Note that the task stays where it is."""
        files.remove(f"{self.private}/recall")

    def closed(self) -> StarterMessage | None:
        """Return how the transfer ended, None while it has not."""
        end = task_notes.read(f"{self.private}/closed")
        return end if end and end.tells_end() else None

    def limit(self, name: str) -> float:
        """Return a limit that the job asked for, in seconds, as its starter noted it."""
        try:
            return seconds(_whole(f"{self.private}/{name}").decode())
        except (GridbridgeError, ValueError):
            return INFINITE_S

    def note_limit(self, name: str, value: str) -> None:
        """Note a limit that the job asked for: home may not answer a method."""
        task_notes.write(f"{self.private}/{name}", value.encode())

    def is_done(self, step: str) -> bool:
        """Say whether a step was noted as done."""
        return os.path.exists(f"{self.private}/{step}")

    def note_done(self, step: str) -> None:
        """Note that a step is done, so that nobody does it again."""
        task_notes.write(f"{self.private}/{step}")

    def ran_for_s(self) -> float:
        """Return how long the local job has run; execd writes `config` as it starts the job."""
        return time.time() - os.stat(f"{self.spool_dir}/config").st_mtime

    def tries(self, of: str = "tries") -> int:
        """Count a try, of a kind, and return how many there were before it."""
        path = f"{self.private}/{of}"
        before = int(task_notes.number(path) or 0)
        task_notes.write(path, b"%d" % (before + 1))
        return before

    def known_for_s(self, note: str) -> float:
        """Return how long ago something was first noted, by a clock that nobody sets."""
        path, now_s = f"{self.private}/{note}", time.clock_gettime(time.CLOCK_BOOTTIME)
        if (first_s := task_notes.number(path)) is None:
            first_s = now_s
            task_notes.write(path, b"%d" % now_s)
        return now_s - first_s

    def require_room(self) -> None:
        """Raise NoRoom unless TMPDIR takes our notes; called before anything is sent."""
        task_notes.require_room(self.private)

    def blame(self, reason: str) -> None:
        """Leave the reason that `qstat -j` and the mail show (the shepherd's error file)."""
        with open(
            f"{self.spool_dir}/error", "w", encoding="utf-8", errors="surrogateescape"
        ) as error:
            error.write(f"gridbridge: {reason}\n")

    def _keep(self, name: str, message: StarterMessage) -> None:
        task_notes.write(f"{self.private}/{name}", encode_short(message))


def me() -> str:
    """Return our login name."""
    return pwd.getpwuid(os.getuid()).pw_name


def now() -> str:
    """Return the time as messages carry it."""
    return f"{time.time():.3f}"


def seconds(limit: str) -> float:
    """Read a time limit, `[[hours:]minutes:]seconds` or INFINITY (sge_types(5))."""
    if limit.upper() in UNLIMITED:
        return INFINITE_S
    total = 0.0
    for part in limit.split(":"):
        total = total * 60 + float(part or 0)
    return total


def _whole(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise GridbridgeError(f"{path}: {error.strerror}") from error

"""Root's ledger: one append-only file for each campaign, so that no attempt of a task is submitted twice.

Only root can open the folder of these files. Short programs load this module, so the module imports little.
"""

import errno
import fcntl
import os
import stat
from bisect import bisect_left, insort
from contextlib import contextmanager, suppress

from gridbridge import errors
from gridbridge.model.campaigns.task_index_and_attempt_texts import MAX_ARRAY_TASKS, parse_attempt_ranges
from gridbridge.model.fixed_paths import LEDGER, LEDGER_CUT

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    # array number, cluster, job id, whether the array may be submitted twice, array indices
    Earlier = tuple[int, str, str, bool, list[int]]
    # first and last task number, number of earlier tasks in the array, array number, number of tasks in a job
    Run = tuple[int, int, int, int, int]
    ArrayTasks = tuple[int, str, int, int]  # array number, tasks, number of tasks in a job, index of the first job


class ArraysBySubmittedTask:
    """Finds the arrays that contain given tasks or attempts; keeps sorted runs of consecutive tasks."""

    def __init__(self, arrays: "Iterable[ArrayTasks]" = ()) -> None:
        self._runs: dict[int, list[Run]] = {}
        self._reach: dict[int, list[int]] = {}  # {attempt number: highest task number up to each run}
        for array in arrays:
            for attempt, run in _parse_consecutive_task_ranges(*array):
                self._runs.setdefault(attempt, []).append(run)
        for attempt, runs in self._runs.items():
            runs.sort()
            reach = self._reach[attempt] = []
            for run in runs:
                reach.append(max(run[1], reach[-1]) if reach else run[1])

    def add_array_tasks(self, array: int, tasks: str, group_tasks: int, first_index: int = 1) -> None:
        for attempt, run in _parse_consecutive_task_ranges(array, tasks, group_tasks, first_index):
            runs, reach = self._runs.setdefault(attempt, []), self._reach.setdefault(attempt, [])
            at = bisect_left(runs, run)
            insort(runs, run)
            reach.insert(at, max(run[1], reach[at - 1]) if at else run[1])

    def has_any_attempt(self, tasks: str) -> bool:
        return any(
            any(self._runs_overlapping_tasks(attempt, first, last))
            for attempt, (first, last, *_) in _parse_consecutive_task_ranges(0, tasks)
        )

    def has_task(self, task: int) -> bool:
        return any(any(self._runs_overlapping_tasks(attempt, task, task)) for attempt in self._runs)

    def array_indices_of_tasks(self, tasks: str) -> dict[int, list[int]]:
        """Return {array number: array indices} for all attempts of the listed tasks."""
        indices: dict[int, set[int]] = {}
        for _, (first, last, *_) in _parse_consecutive_task_ranges(0, tasks):
            for attempt in self._runs:
                for begin, end, before, array, group_tasks in self._runs_overlapping_tasks(attempt, first, last):
                    shared = range(max(first, begin), min(last, end) + 1)
                    indices.setdefault(array, set()).update((before + n - begin) // group_tasks + 1 for n in shared)
        return {array: sorted(indices[array]) for array in sorted(indices)}

    def _runs_overlapping_tasks(self, attempt: int, first: int, last: int) -> "Iterator[Run]":
        runs, reach = self._runs.get(attempt, []), self._reach.get(attempt, [])
        at = bisect_left(runs, (last + 1,)) - 1
        while at >= 0 and reach[at] >= first:
            if runs[at][1] >= first:
                yield runs[at]
            at -= 1


def _parse_consecutive_task_ranges(
    array: int, tasks: str, group_tasks: int = 1, first_index: int = 1
) -> "Iterator[tuple[int, Run]]":
    before = (first_index - 1) * group_tasks
    for part in tasks.split(","):
        numbers, _, attempt = part.partition(":")
        begin, _, end = numbers.partition("-")
        first, last = int(begin), int(end or begin)
        yield int(attempt), (first, last, before, array, group_tasks)
        before += last - first + 1


FILE, PART, ARRAY, JOB, AGAIN = "file", "part", "array", "job", "again"
END, TAKEN_UP = "end", "taken-up"
WITHDRAWN = "withdrawn"  # ledger word for an array that was not submitted after all
COPIES = "copies"  # fifth word of the ledger line of an array of speculative attempts; its settings may follow
MORE, ADDED = "more", "more="  # tasks that a running job got later: in the ledger, and in the list of arrays
GROUP = "group="  # begins the setting of an array whose jobs run several tasks each
MOST_COPIES = 2
NO_ROOM = 28
OPTIONS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
NONE = -1  # stands for the file descriptor of a missing file


class RootLedgerOfSubmittedTasks:
    """Root's ledger of one campaign's submitted tasks; a file lock admits one process at a time."""

    def __init__(self, campaign: int, folder: str = LEDGER, require_lead: "Callable[[], None]" = lambda: None) -> None:
        """Open and lock the ledger file; raise RootLedgerUnreadable if users other than root could write it.

        `require_lead` is called before each write, and raises MasterDeposed if another master leads.
        """
        self.require_lead = require_lead
        self._size = 0  # bytes of the ledger file that this process has read or written
        self._folder, self._name = folder, f"c.{campaign}"
        self._path = f"{folder}/{self._name}"
        self._file: list[str] = []  # words of the ledger line about the campaign's file
        self._parts: dict[str, list[str]] = {}  # {part number: words of the ledger line}, for files of added tasks
        self._arrays: dict[str, list[str]] = {}  # {array number: words of the ledger line}
        self._jobs: dict[str, str] = {}  # {array number: first job id}
        self._more: dict[str, list[tuple[str, str]]] = {}  # {array number: array indices and tasks of running jobs}
        self._again: set[str] = set()  # arrays that may have been submitted twice
        self._requests: set[str] = set()  # owner's requests that reopened the campaign
        self._sent: ArraysBySubmittedTask | None = None
        self._unwritten: list[bytes] | None = None  # lines that `write_lines_at_once` has collected; otherwise None
        self.has_ended = False
        try:
            require_private_ledger_folder(folder)
            self._end = _open_ledger_file(self._path)
            self._apply_ledger_rows(self._read_ledger_rows() if self._end != NONE else [])
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == NO_ROOM:
                raise  # a full disk is no fault of the ledger
            why = error.strerror if isinstance(error, OSError) else "no ledger of gridbridge"
            raise errors.RootLedgerUnreadable(f"{self._path}: {why}") from error

    def _read_ledger_rows(self) -> list[list[str]]:
        fcntl.flock(self._end, fcntl.LOCK_EX)
        with open(os.dup(self._end), "rb") as file:
            whole, end, cut = file.read().rpartition(b"\n")
        if cut:  # a power failure has cut the last line
            os.ftruncate(self._end, len(whole + end))
            with suppress(OSError):  # standard error may be closed
                os.write(2, f"{LEDGER_CUT} {self._name} {len(cut)}\n".encode("ascii"))
        self._size = len(whole + end)
        return [line.split() for line in whole.decode("ascii").split("\n") if line]

    def _apply_ledger_rows(self, rows: list[list[str]]) -> None:
        first, noted = {PART: self._parts, ARRAY: self._arrays}, {AGAIN: self._again, TAKEN_UP: self._requests}
        for row in rows:
            kind, *words = row
            if kind == FILE and not self._file:
                self._file = row
            elif kind in first:
                first[kind].setdefault(words[0], row)
            elif kind == JOB:
                self._jobs.setdefault(words[0], words[1])
            elif kind == MORE:
                self._more.setdefault(words[0], []).append((words[1], words[2]))
            elif kind in noted:
                noted[kind].add(words[0])
            elif kind == WITHDRAWN:
                self._arrays.pop(words[0], None)
            self.has_ended = kind == END or (self.has_ended and kind != TAKEN_UP)

    def __enter__(self) -> "RootLedgerOfSubmittedTasks":
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: "BaseException | None", trace: "TracebackType | None"
    ) -> None:
        if self._end != NONE:
            os.close(self._end)

    @property
    def uid(self) -> int:
        """The uid of the campaign's owner; 0 before the campaign's first submission."""
        return int(self._file[1]) if self._file else 0

    @property
    def has_campaign_file(self) -> bool:
        """Whether the ledger has the campaign's file, which is recorded before the first submission."""
        return bool(self._file)

    def record_campaign_end(self) -> None:
        """Record the campaign's end, after which root submits and releases no task of the campaign."""
        if not self.has_ended:
            self._add_ledger_row([END])

    def reopen_campaign(self, request: str) -> None:
        """Record that a request reopens a campaign; raise CampaignEndInRootLedger if it has ended again."""
        if request not in self._requests:
            self._add_ledger_row([TAKEN_UP, request])
        self.require_campaign_not_ended()

    def require_campaign_not_ended(self) -> None:
        """Raise CampaignEndInRootLedger if the campaign has ended."""
        if self.has_ended:
            raise errors.CampaignEndInRootLedger(f"{self._path}: the campaign has ended")

    def record_or_verify_campaign_file(self, uid: int, digest: str) -> None:
        """Record owner and digest of the campaign's file; raise CampaignFileChanged for another file."""
        now = [FILE, str(uid), digest]
        if not self._file:
            self._link_file_to_campaign(f"{FILE}.{uid}.{digest}")
            self._add_ledger_row(now)
        if self._file != now:
            raise errors.CampaignFileChanged(f"{self._path}: the file has changed since the service accepted it")

    def _link_file_to_campaign(self, file: str) -> None:
        """Link a campaign file to this ledger; the fsync of the next ledger line makes the link durable."""
        path = f"{self._folder}/{file}"
        try:
            os.symlink(self._name, path)  # an existing symlink must point to the same campaign
        except FileExistsError:
            if (target := os.readlink(path)) != self._name:
                raise errors.CampaignFileChanged(
                    f"{self._path}: the campaign's file already belongs to {target}"
                ) from None

    def record_or_verify_added_tasks_file(self, part: int, digest: str, tasks: int) -> None:
        """Record digest and task count of a file of added tasks; raise CampaignFileChanged for another file."""
        now = [PART, str(part), digest, str(tasks)]
        if now == self._parts.get(str(part)):
            return
        is_known = any(digest in row for row in (self._file, *self._parts.values()))
        if is_known or self.count_tasks_of_part(part) is not None:
            raise errors.CampaignFileChanged(f"{self._path}: file {part} of added tasks has changed")
        self._add_ledger_row(now)

    def count_tasks_of_part(self, part: int) -> int | None:
        row = self._parts.get(str(part))
        return int(row[3]) if row else None

    def job_id_of_array(self, array: int) -> str:
        return self._jobs.get(str(array), "")

    def record_array(
        self, array: int, cluster: str, tasks: str, is_of_copies: bool = False, settings: "tuple[str, ...]" = ()
    ) -> None:
        """Record an array before its submission; an array recorded twice may have been submitted twice.

        The first recorded `settings` (`ordinary`, `checkpoint=...`, `group=...`) are kept for a restored state file.
        Raises ArrayTasksAlreadyInLedger, SpeculativeCopyRefusal or CampaignEndInRootLedger.
        """
        now = [ARRAY, str(array), cluster, tasks, *([COPIES] if is_of_copies else []), *settings]
        before = self._arrays.get(str(array))
        is_same_kind = before is not None and is_of_copies is (before[4:5] == [COPIES])
        if before and is_same_kind and now[:4] == before[:4] and group_of_jobs(now) == group_of_jobs(before):
            if not self.job_id_of_array(array):
                self.require_campaign_not_ended()
            if not (self.job_id_of_array(array) or self.may_be_submitted_twice(array)):
                self._add_ledger_row([AGAIN, str(array)])
            return
        if before:
            raise errors.ArrayTasksAlreadyInLedger(f"{self._path}: array {array} is recorded with other tasks")
        numbers = [task for task, _ in parse_attempt_ranges(tasks)]
        if self._submitted_task_index.has_any_attempt(tasks):
            raise errors.ArrayTasksAlreadyInLedger(f"{self._path}: an attempt of {tasks[:40]} was submitted before")
        if len(set(numbers)) < len(numbers) and not is_of_copies:
            raise errors.ArrayTasksAlreadyInLedger(f"{self._path}: a task comes twice in {tasks[:40]}")
        if is_of_copies:
            self._require_allowed_copies(numbers)
        self.require_campaign_not_ended()
        self._add_ledger_row(now)
        self._submitted_task_index.add_array_tasks(array, tasks, group_of_jobs(now)[0])

    @property
    def _submitted_task_index(self) -> ArraysBySubmittedTask:
        if self._sent is None:
            rows = self._arrays.values()
            sent: list[ArrayTasks] = [(int(row[1]), row[3], group_of_jobs(row[4:])[0], 1) for row in rows]
            sent += (
                (int(array), tasks, MAX_ARRAY_TASKS, int(index))
                for array, jobs in self._more.items()
                for index, tasks in jobs
            )
            self._sent = ArraysBySubmittedTask(sent)
        return self._sent

    def record_tasks_of_running_job(self, array: int, cluster: str, index: int, tasks: str) -> None:
        """Record further tasks of a job, before the job gets them; only tasks that were never sent.

        Raises ArrayTasksAlreadyInLedger, RootLedgerUnreadable or CampaignEndInRootLedger.
        """
        row = self._arrays.get(str(array))
        group_tasks, _, wait_s = group_of_jobs(row[4:]) if row else (1, 0, 0)
        jobs = -(-len(parse_attempt_ranges(row[3])) // group_tasks) if row else 0
        if not row or row[2] != cluster or not wait_s or not self.job_id_of_array(array) or not 0 < index <= jobs:
            raise errors.RootLedgerUnreadable(f"{self._path}: job {index} of array {array} gets no further tasks")
        attempts = parse_attempt_ranges(tasks)
        if any(attempt != 1 or self._submitted_task_index.has_task(task) for task, attempt in attempts):
            raise errors.ArrayTasksAlreadyInLedger(f"{self._path}: a task of {tasks[:40]} was submitted before")
        self.require_campaign_not_ended()
        self._add_ledger_row([MORE, str(array), str(index), tasks])
        self._submitted_task_index.add_array_tasks(array, tasks, MAX_ARRAY_TASKS, index)

    def arrays_with_same_tasks(self, array: int, tasks: str) -> "list[Earlier]":
        """Return all arrays except `array` that contain any attempt of the listed tasks."""
        parse_attempt_ranges(tasks)  # raises ParseError for an invalid task list
        repeated = self.may_be_submitted_twice
        return [
            (number, self._arrays[str(number)][2], self.job_id_of_array(number), repeated(number), indices)
            for number, indices in self._submitted_task_index.array_indices_of_tasks(tasks).items()
            if number != array
        ]

    def _require_allowed_copies(self, tasks: list[int]) -> None:
        for task in sorted(set(tasks)):
            if not self._submitted_task_index.has_task(task):
                raise errors.SpeculativeCopyRefusal(f"{self._path}: task {task} was never submitted")
        times = self.count_copies_before()
        for task in tasks:
            times[task] = times.get(task, 0) + 1
            if times[task] > MOST_COPIES:
                raise errors.SpeculativeCopyRefusal(f"{self._path}: task {task} gets {MOST_COPIES} copies at most")

    def count_copies_before(self, array: int = 0) -> dict[int, int]:
        """Count each task's speculative attempts in arrays below number `array`; 0 counts all arrays."""
        counts: dict[int, int] = {}
        for number, row in self._arrays.items():
            if row[4:5] == [COPIES] and (not array or int(number) < array):
                for task, _ in parse_attempt_ranges(row[3]):
                    counts[task] = counts.get(task, 0) + 1
        return counts

    def may_be_submitted_twice(self, array: int) -> bool:
        """Return whether an array may have been submitted twice because an answer was lost."""
        return str(array) in self._again

    def list_submitted_arrays(self) -> tuple[tuple[str, ...], ...]:
        """Return each array's number, cluster, tasks, job id or "", `copies` if it is speculative, and settings.

        Further tasks of running jobs follow as `more=INDEX=TASKS`.
        """
        return tuple(
            (*row[1:4], self.job_id_of_array(int(number)), *row[4:], *_words_of_added_tasks(self._more.get(number, ())))
            for number, row in self._arrays.items()
        )

    def record_job_id_of_array(self, array: int, job: str) -> None:
        self._add_ledger_row([JOB, str(array), job])

    def withdraw_array(self, array: int) -> None:
        self._add_ledger_row([WITHDRAWN, str(array)])
        self._sent = None

    @contextmanager
    def write_lines_at_once(self) -> "Iterator[None]":
        """Write all ledger lines of a `with` block at its end, with one fsync.

        If the disk is full, the end of the block raises OSError and writes no line; the ledger object is then unusable.
        """
        self._unwritten = []
        try:
            yield
        finally:
            lines, self._unwritten = b"".join(self._unwritten), None
            if lines:
                self._write_ledger_lines(lines)

    def _add_ledger_row(self, row: list[str]) -> None:
        line = f"{' '.join(row)}\n".encode("ascii")
        if self._unwritten is None:
            self._write_ledger_lines(line)
        else:
            self._unwritten.append(line)
        self._apply_ledger_rows([row])

    def _write_ledger_lines(self, lines: bytes) -> None:
        self.require_lead()
        if self._end == NONE:
            self._end = os.open(self._path, OPTIONS | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._end, fcntl.LOCK_EX)
            if os.fstat(self._end).st_size:
                raise OSError(errno.EEXIST, "another process has created the ledger file", self._path)
        before = os.lseek(self._end, 0, os.SEEK_END)
        if before != self._size:  # a file server forgets the locks of a host that it can't reach
            raise OSError(errno.ESTALE, "another process has written to the ledger in spite of the lock", self._path)
        try:
            written = os.write(self._end, lines)
            os.fsync(self._end)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        if written != len(lines):
            os.ftruncate(self._end, before)
            raise OSError(NO_ROOM, "No space left on device", self._path)
        self._size += written


def _words_of_added_tasks(jobs: "Iterable[tuple[str, str]]") -> "Iterator[str]":
    return (f"{ADDED}{index}={tasks}" for index, tasks in jobs)


def group_of_jobs(words: list[str]) -> tuple[int, int, int]:
    """Return how many tasks each job of an array runs, after how many seconds it begins none, and how long it waits.

    `words` are the last words of the array's line in the ledger.
    """
    for word in words:
        if word.startswith(GROUP):
            tasks, begin_s, wait_s = (*word.removeprefix(GROUP).split(","), "0")[:3]
            return int(tasks), int(begin_s), int(wait_s)
    return 1, 0, 0


def _open_ledger_file(path: str) -> int:
    try:
        return os.open(path, OPTIONS)
    except FileNotFoundError:
        return NONE


def require_private_ledger_folder(folder: str) -> None:
    """Create root's folder, or raise RootLedgerUnreadable if others than root can open it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise errors.RootLedgerUnreadable(f"{folder}: not a folder that only its owner can open") from None

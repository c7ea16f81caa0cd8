"""Root's ledger of submitted tasks, which only root can write: each attempt of a task is submitted once.

Each array is parsed once into runs of consecutive tasks. Frequently started programs load this module.

Each campaign has one append-only file, in a folder that only root can open. Frequently started programs load
this module.
"""

import errno
import fcntl
import os
import stat
from bisect import bisect_left, insort
from contextlib import contextmanager, suppress

from gridbridge.errors import (
    ArrayTasksAlreadyInLedger,
    CampaignEndInRootLedger,
    CampaignFileChanged,
    RootLedgerUnreadable,
    SpeculativeCopyRefusal,
)
from gridbridge.model.campaigns.task_attempt_ranges import parse_attempt_ranges
from gridbridge.model.fixed_paths import LEDGER, LEDGER_CUT

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Run = tuple[int, int, int, int]  # run: first task, last task, number of earlier tasks in the array, array number


class SubmittedTaskIndex:
    """An index of submitted task runs, by attempt, sorted by first task."""

    def __init__(self, arrays: "Iterable[tuple[int, str]]" = ()) -> None:
        """Index arrays, given by their numbers and task lists."""
        self._runs: dict[int, list[Run]] = {}
        self._reach: dict[int, list[int]] = {}  # by attempt: the highest last task up to each run
        for array, tasks in arrays:
            for attempt, run in _runs(array, tasks):
                self._runs.setdefault(attempt, []).append(run)
        for attempt, runs in self._runs.items():
            runs.sort()
            reach = self._reach[attempt] = []
            for run in runs:
                reach.append(max(run[1], reach[-1]) if reach else run[1])

    def add(self, array: int, tasks: str) -> None:
        """Add a new array to the index."""
        for attempt, run in _runs(array, tasks):
            runs, reach = self._runs.setdefault(attempt, []), self._reach.setdefault(attempt, [])
            at = bisect_left(runs, run)
            insort(runs, run)
            reach.insert(at, max(run[1], reach[at - 1]) if at else run[1])

    def have(self, tasks: str) -> bool:
        """Return whether any of these attempts is in an array."""
        return any(True for attempt, (first, last, *_) in _runs(0, tasks) for _ in self._between(attempt, first, last))

    def has_task(self, task: int) -> bool:
        """Return whether any attempt of a task is in an array."""
        return any(True for attempt in self._runs for _ in self._between(attempt, task, task))

    def indices_of(self, tasks: str) -> dict[int, list[int]]:
        """Return the array indices of these tasks by array, for any attempt."""
        indices: dict[int, set[int]] = {}
        for _, (first, last, *_) in _runs(0, tasks):
            for attempt in self._runs:
                for begin, end, before, array in self._between(attempt, first, last):
                    shared = range(max(first, begin), min(last, end) + 1)
                    indices.setdefault(array, set()).update(before + n - begin + 1 for n in shared)
        return {array: sorted(indices[array]) for array in sorted(indices)}

    def _between(self, attempt: int, first: int, last: int) -> "Iterator[Run]":
        """Yield the runs of an attempt that overlap these tasks.

        Runs of an attempt do not overlap each other, so at most one run is read in vain.
        """
        runs, reach = self._runs.get(attempt, []), self._reach.get(attempt, [])
        at = bisect_left(runs, (last + 1,)) - 1
        while at >= 0 and reach[at] >= first:
            if runs[at][1] >= first:
                yield runs[at]
            at -= 1


def _runs(array: int, tasks: str) -> "Iterator[tuple[int, Run]]":
    """Yield the runs of an array, each with its attempt number."""
    before = 0
    for part in tasks.split(","):
        numbers, _, attempt = part.partition(":")
        begin, _, end = numbers.partition("-")
        first, last = int(begin), int(end or begin)
        yield int(attempt), (first, last, before, array)
        before += last - first + 1


if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    # array number, cluster, job id, whether submission may be repeated, array indices
    Earlier = tuple[int, str, str, bool, list[int]]

FILE, PART, ARRAY, JOB, AGAIN = "file", "part", "array", "job", "again"
END, TAKEN_UP = "end", "taken-up"
WITHDRAWN = "withdrawn"  # state of an array that was intended and never submitted
COPIES = "copies"  # the last word of a line for speculative attempts
MOST_COPIES = 2  # most speculative attempts of one task
NO_ROOM = 28
OPTIONS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
NONE = -1  # stands for the file descriptor of a missing file


class RootLedgerOfSubmittedTasks:
    """One campaign's ledger; a file lock allows one process at a time."""

    def __init__(self, campaign: int, folder: str = LEDGER) -> None:
        """Open and lock the ledger file; a missing file counts as empty.

        Raises RootLedgerUnreadable if the file cannot be read, or if other users can write its
        folder.
        """
        self._folder, self._name = folder, f"c.{campaign}"
        self._path = f"{folder}/{self._name}"
        self._file: list[str] = []  # words of the line for the campaign's file
        self._parts: dict[str, list[str]] = {}  # lines of files of added tasks, by part number
        self._arrays: dict[str, list[str]] = {}  # lines by array number
        self._jobs: dict[str, str] = {}  # first job id by array number
        self._again: set[str] = set()  # arrays that may have been submitted twice
        self._requests: set[str] = set()  # requests that reopened the campaign
        self._sent: SubmittedTaskIndex | None = None  # index of submitted tasks, built on first use
        self._unwritten: list[bytes] | None = None  # lines of an open batch
        self.has_ended = False  # whether the campaign ended and was not reopened
        try:
            _own(folder)
            self._end = _opened(self._path)
            self._note(self._read() if self._end != NONE else [])
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == NO_ROOM:
                raise  # a full disk does not mean that the ledger is unreadable
            why = error.strerror if isinstance(error, OSError) else "not a ledger of ours"
            raise RootLedgerUnreadable(f"{self._path}: {why}") from error

    def _read(self) -> list[list[str]]:
        fcntl.flock(self._end, fcntl.LOCK_EX)
        with open(os.dup(self._end), "rb") as file:
            whole, end, cut = file.read().rpartition(b"\n")
        if cut:  # part of a last line, cut by a power failure
            os.ftruncate(self._end, len(whole + end))
            _warn(f"{LEDGER_CUT} {self._name} {len(cut)}\n")
        return [line.split() for line in whole.decode("ascii").split("\n") if line]

    def _note(self, rows: list[list[str]]) -> None:
        """Index ledger lines, so that later look-ups do not read all lines."""
        first = {PART: self._parts, ARRAY: self._arrays}  # lines by their numbers
        for row in rows:
            kind, *words = row
            if kind == FILE and not self._file:
                self._file = row
            elif kind in first:
                first[kind].setdefault(words[0], row)
            elif kind == JOB:
                self._jobs.setdefault(words[0], words[1])
            elif kind == AGAIN:
                self._again.add(words[0])
            elif kind == WITHDRAWN:
                self._arrays.pop(words[0], None)
            elif kind == TAKEN_UP:
                self._requests.add(words[0])
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
        """The uid of the campaign's owner; 0 if none of its tasks was submitted."""
        return int(self._file[1]) if self._file else 0

    @property
    def has_file(self) -> bool:
        """Whether the ledger has the campaign's file, which precedes any submission."""
        return bool(self._file)

    def end(self) -> None:
        """Record that the campaign has ended; root then submits and releases none of its tasks."""
        if not self.has_ended:
            self._add([END])

    def take_up(self, request: str) -> None:
        """Record once that the owner's request reopens the campaign.

        Raises CampaignEndInRootLedger if the campaign ended again after this request.
        """
        if request not in self._requests:
            self._add([TAKEN_UP, request])
        self.require_going()

    def require_going(self) -> None:
        """Raise CampaignEndInRootLedger if the campaign has ended."""
        if self.has_ended:
            raise CampaignEndInRootLedger(f"{self._path}: the campaign has ended")

    def require(self, uid: int, digest: str) -> None:
        """Record the campaign's file; CampaignFileChanged if a different file was recorded before.

        Two campaigns never share a file: a file's digest belongs to its first campaign.
        """
        now = [FILE, str(uid), digest]
        if not self._file:
            self._claim(f"{FILE}.{uid}.{digest}")
            self._add(now)
        if self._file != now:
            raise CampaignFileChanged(f"{self._path}: not the file that it was when it was taken in")

    def _claim(self, file: str) -> None:
        """Create a symlink from the file's digest to the campaign's number.

        The fsync of the next ledger line also makes the symlink durable.
        """
        path = f"{self._folder}/{file}"
        try:
            os.symlink(self._name, path)  # an existing symlink must have the same target
        except FileExistsError:
            if (target := os.readlink(path)) != self._name:
                raise CampaignFileChanged(f"{self._path}: the file is that of {target}") from None

    def require_part(self, part: int, digest: str, tasks: int) -> None:
        """Record a file of added tasks and its number of tasks.

        Raises CampaignFileChanged if the part had a different file before, or if the file belongs
        to another part.
        """
        now = [PART, str(part), digest, str(tasks)]
        if now == self._parts.get(str(part)):
            return
        is_known = any(digest in row for row in (self._file, *self._parts.values()))
        if is_known or self.tasks_of(part) is not None:
            raise CampaignFileChanged(f"{self._path}: part {part} is not the file that it was")
        self._add(now)

    def tasks_of(self, part: int) -> int | None:
        """Return the number of tasks in a part; None if the ledger does not have the part."""
        row = self._parts.get(str(part))
        return int(row[3]) if row else None

    def job(self, array: int) -> str:
        """Return the job id of a submitted array; empty if the id is unknown."""
        return self._jobs.get(str(array), "")

    def intend(self, array: int, cluster: str, tasks: str, is_of_copies: bool = False) -> None:
        """Record an array before its submission.

        A second record of the same array means that the first answer may have been lost. Raises
        ArrayTasksAlreadyInLedger if another array has one of the attempts, SpeculativeCopyRefusal
        for invalid or too many speculative attempts, and CampaignEndInRootLedger.
        """
        now = [ARRAY, str(array), cluster, tasks, *([COPIES] if is_of_copies else [])]
        before = self._arrays.get(str(array))
        if now == before:
            if not self.job(array):
                self.require_going()
            self._once_more(array)
            return
        if before:
            raise ArrayTasksAlreadyInLedger(f"{self._path}: array {array} has other tasks")
        numbers = [task for task, _ in parse_attempt_ranges(tasks)]
        if self._sent_tasks.have(tasks):
            raise ArrayTasksAlreadyInLedger(f"{self._path}: an attempt of {tasks[:40]} was submitted before")
        if len(set(numbers)) < len(numbers) and not is_of_copies:
            raise ArrayTasksAlreadyInLedger(f"{self._path}: a task comes twice in {tasks[:40]}")
        if is_of_copies:
            self._require_copies(numbers)
        self.require_going()
        self._add(now)
        self._sent_tasks.add(array, tasks)

    @property
    def _sent_tasks(self) -> SubmittedTaskIndex:
        if self._sent is None:
            self._sent = SubmittedTaskIndex((int(row[1]), row[3]) for row in self._arrays.values())
        return self._sent

    def earlier(self, array: int, tasks: str) -> "list[Earlier]":
        """Return the other arrays that hold any attempt of these tasks."""
        parse_attempt_ranges(tasks)  # ParseError for an invalid task list
        indices_by_array = self._sent_tasks.indices_of(tasks)
        indices_by_array.pop(array, None)
        return [
            (number, self._arrays[str(number)][2], self.job(number), self.was_repeated(number), indices)
            for number, indices in indices_by_array.items()
        ]

    def _require_copies(self, tasks: list[int]) -> None:
        for task in sorted(set(tasks)):
            if not self._sent_tasks.has_task(task):
                raise SpeculativeCopyRefusal(f"{self._path}: task {task} was not submitted before")
        times = self.copies_before()
        for task in tasks:
            times[task] = times.get(task, 0) + 1
            if times[task] > MOST_COPIES:
                raise SpeculativeCopyRefusal(f"{self._path}: task {task} gets {MOST_COPIES} copies at most")

    def copies_before(self, array: int = 0) -> dict[int, int]:
        """Return the number of speculative attempts by task, in arrays below `array` or in all."""
        counts: dict[int, int] = {}
        for number, row in self._arrays.items():
            if row[4:] == [COPIES] and (not array or int(number) < array):
                for task, _ in parse_attempt_ranges(row[3]):
                    counts[task] = counts.get(task, 0) + 1
        return counts

    def _once_more(self, array: int) -> None:
        if not (self.job(array) or self.was_repeated(array)):
            self._add([AGAIN, str(array)])

    def was_repeated(self, array: int) -> bool:
        """Return whether an array may have been submitted twice because an answer was lost."""
        return str(array) in self._again

    def arrays(self) -> tuple[tuple[str, ...], ...]:
        """Return number, cluster, tasks and job id of each array; an unknown id is empty.

        Arrays of speculative attempts have the word `copies` as a fifth item.
        """
        rows = self._arrays.values()
        return tuple((*row[1:4], self.job(int(row[1])), *row[4:]) for row in rows)

    def submitted(self, array: int, job: str) -> None:
        """Record the job id of a submitted array."""
        self._add([JOB, str(array), job])

    def withdraw(self, array: int) -> None:
        """Record that this call did not submit an intended array."""
        self._add([WITHDRAWN, str(array)])
        self._sent = None

    @contextmanager
    def batch(self) -> "Iterator[None]":
        """Write all lines of a `with` block at its end, with one fsync.

        No line is durable before the end of the block. If the disk is full, the block's end raises
        OSError, no line is written, and this object must not be used further.
        """
        self._unwritten = []
        try:
            yield
        finally:
            lines, self._unwritten = b"".join(self._unwritten), None
            if lines:
                self._write(lines)

    def _begin(self) -> None:
        """Create the ledger file; OSError if another call created it meanwhile."""
        self._end = os.open(self._path, OPTIONS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._end, fcntl.LOCK_EX)
        if os.fstat(self._end).st_size:
            raise OSError(errno.EEXIST, "another call has begun it", self._path)

    def _add(self, row: list[str]) -> None:
        """Append a line durably before any action follows; OSError if the disk is full."""
        line = f"{' '.join(row)}\n".encode("ascii")
        if self._unwritten is None:
            self._write(line)
        else:
            self._unwritten.append(line)
        self._note([row])

    def _write(self, lines: bytes) -> None:
        if self._end == NONE:
            self._begin()
        before = os.lseek(self._end, 0, os.SEEK_END)
        try:
            written = os.write(self._end, lines)
            os.fsync(self._end)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        if written != len(lines):
            os.ftruncate(self._end, before)
            raise OSError(NO_ROOM, "No space left on device", self._path)


def _opened(path: str) -> int:
    try:
        return os.open(path, OPTIONS)
    except FileNotFoundError:
        return NONE


def _warn(line: str) -> None:
    with suppress(OSError):  # standard error may be closed
        os.write(2, line.encode("ascii"))


def _own(folder: str) -> None:
    """Create the ledger folder, or check that only root can use it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise RootLedgerUnreadable(f"{folder}: not a folder of ours alone") from None

"""Root's ledger: which attempts of which tasks of a campaign were submitted, and as what.

A file a campaign, in a folder that root alone can open; lines are only ever added. Hot programs
load this module.
"""

import errno
import fcntl
import os
import stat
from bisect import bisect_left, bisect_right
from contextlib import suppress

from gridbridge.errors import AlreadySubmitted, Ended, LedgerLost, NotACopy, NotAsBrought
from gridbridge.model.campaigns.numbers import read_attempts
from gridbridge.model.places import LEDGER, LEDGER_CUT

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from types import TracebackType

    Earlier = tuple[int, str, str, list[int]]  # an array, its cluster and id, and places of it

FILE, PART, ARRAY, JOB, AGAIN = "file", "part", "array", "job", "again"
END, TAKEN_UP = "end", "taken-up"
COPIES = "copies"  # the last word of an array's line
MOST_COPIES = 2  # of a task
NO_ROOM = 28
OPTIONS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
NONE = -1  # instead of a descriptor


class Ledger:
    """What root knows of one campaign; held by one process at a time."""

    def __init__(self, campaign: int, folder: str = LEDGER) -> None:
        """Open it; one that is not there has no lines, and is begun by the first one.

        LedgerLost when it can't be read, or its folder is not ours alone.
        """
        self._folder, self._name = folder, f"c.{campaign}"
        self._path = f"{folder}/{self._name}"
        try:
            _own(folder)
            self._end = _opened(self._path)
            self._rows = self._read() if self._end != NONE else []
            self._jobs = _jobs(self._rows)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == NO_ROOM:
                raise  # nothing is lost
            why = error.strerror if isinstance(error, OSError) else "not a ledger of ours"
            raise LedgerLost(f"{self._path}: {why}") from error

    def _read(self) -> list[list[str]]:
        fcntl.flock(self._end, fcntl.LOCK_EX)
        with open(os.dup(self._end), "rb") as file:
            whole, end, cut = file.read().rpartition(b"\n")
        if cut:  # power may have gone while a line was written
            os.ftruncate(self._end, len(whole + end))
            _tell(f"{LEDGER_CUT} {self._name} {len(cut)}\n")
        return [line.split() for line in whole.decode("ascii").split("\n") if line]

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        if self._end != NONE:
            os.close(self._end)

    @property
    def uid(self) -> int:
        """Whose campaign it is; 0 where nothing of it was submitted."""
        return int(self._file[1]) if self._file else 0

    @property
    def has_file(self) -> bool:
        """Whether the campaign's file is noted: something of it was to be submitted before."""
        return bool(self._file)

    @property
    def _file(self) -> list[str]:
        """What is noted of the campaign's file; empty while nothing is."""
        return next((row for row in self._rows if row[0] == FILE), [])

    @property
    def has_ended(self) -> bool:
        """Whether the campaign's end was told, and its owner has not taken it up again since."""
        told = [row[0] for row in self._rows if row[0] in (END, TAKEN_UP)]
        return told[-1:] == [END]

    def end(self) -> None:
        """Note that the campaign has ended: nothing more of it is submitted or released."""
        if not self.has_ended:
            self._add([END])

    def take_up(self, request: str) -> None:
        """Note that its owner took it up again, by a request that does that once; else Ended."""
        if [TAKEN_UP, request] not in self._rows:
            self._add([TAKEN_UP, request])
        self.require_going()

    def require_going(self) -> None:
        """Raise Ended where the campaign has ended."""
        if self.has_ended:
            raise Ended(f"{self._path}: the campaign has ended")

    def require(self, uid: int, digest: str, is_unique: bool = False) -> None:
        """Note the campaign's file; NotAsBrought when it was another at the first call.

        A file that says that it is like no other is that of one campaign, whatever it is called.
        """
        now = [FILE, str(uid), digest]
        if not self._file:
            if is_unique:
                self._claim(f"{FILE}.{uid}.{digest}")
            self._add(now)
        if self._file != now:
            raise NotAsBrought(f"{self._path}: not the file that it was when it was taken in")

    def _claim(self, file: str) -> None:
        """Note under which number a file is known; the next line of ours makes that last."""
        path = f"{self._folder}/{file}"
        try:
            os.symlink(self._name, path)  # it has its number, or is not there
        except FileExistsError:
            if (known := os.readlink(path)) != self._name:
                raise NotAsBrought(f"{self._path}: the file is that of {known}") from None

    def require_part(self, part: int, digest: str, tasks: int) -> None:
        """Note a part's file, and how many tasks it has; each file is one part of a campaign.

        Raises NotAsBrought when it was another at the first call.
        """
        now = [PART, str(part), digest, str(tasks)]
        if now in self._rows:
            return
        is_known = any(row[0] in (FILE, PART) and digest in row for row in self._rows)
        if is_known or self.tasks_of(part) is not None:
            raise NotAsBrought(f"{self._path}: part {part} is not the file that it was")
        self._add(now)

    def tasks_of(self, part: int) -> int | None:
        """Return how many tasks a part has; None while nothing of it was submitted."""
        found = (int(row[3]) for row in self._rows if row[:2] == [PART, str(part)])
        return next(found, None)

    def job(self, array: int) -> str:
        """Return the id of an array that was submitted, empty when that is not known."""
        return self._jobs.get(str(array), "")

    def intend(self, array: int, cluster: str, tasks: str, is_of_copies: bool = False) -> None:
        """Note what will be submitted; AlreadySubmitted for an attempt that another array has.

        Noted once more, it is known from then on that an answer may have been lost. Raises
        NotACopy for copies that are none, or too many of one task, and Ended.
        """
        now = [ARRAY, str(array), cluster, tasks, *([COPIES] if is_of_copies else [])]
        arrays = [row for row in self._rows if row[0] == ARRAY]
        if now in arrays:
            if not self.job(array):
                self.require_going()
            self._once_more(array)
            return
        if any(row[1] == str(array) for row in arrays):
            raise AlreadySubmitted(f"{self._path}: array {array} has other tasks")
        wanted = Wanted(tasks)
        if any(wanted.meets(row[3]) for row in arrays):
            raise AlreadySubmitted(f"{self._path}: an attempt of {tasks[:40]} was submitted before")
        if wanted.is_twofold and not is_of_copies:
            raise AlreadySubmitted(f"{self._path}: a task comes twice in {tasks[:40]}")
        if is_of_copies:
            self._require_copies(tasks)
        self.require_going()
        self._add(now)

    def earlier(self, array: int, tasks: str) -> "list[Earlier]":
        """Return the other arrays that have some of these tasks, whichever attempts of them."""
        wanted = sorted({task for task, _ in read_attempts(tasks)})
        rows = (row for row in self._rows if row[0] == ARRAY and row[1] != str(array))
        found = ((row, _places(row[3], wanted)) for row in rows)
        return [(int(row[1]), row[2], self.job(int(row[1])), some) for row, some in found if some]

    def _require_copies(self, tasks: str) -> None:
        wanted = [task for task, _ in read_attempts(tasks)]
        new = sorted(set(wanted))
        for row in self._rows:
            new = _without(new, row[3]) if row[0] == ARRAY else new
        if new:
            raise NotACopy(f"{self._path}: task {new[0]} was not submitted before")
        times: dict[int, int] = {}
        for task in [*self._copied(), *wanted]:
            times[task] = times.get(task, 0) + 1
            if times[task] > MOST_COPIES:
                raise NotACopy(f"{self._path}: task {task} gets {MOST_COPIES} copies at most")

    def _copied(self, before: int = 0) -> list[int]:
        """Return the tasks of arrays of copies, of those before an array if one is given."""
        rows = (row for row in self._rows if row[0] == ARRAY and row[4:] == [COPIES])
        return [
            task
            for row in rows
            if not before or int(row[1]) < before
            for task, _ in read_attempts(row[3])
        ]

    def copies_of(self, task: int, before: int) -> int:
        """Return how many copies of a task were submitted by arrays before that one."""
        return self._copied(before).count(task)

    def _once_more(self, array: int) -> None:
        if not (self.job(array) or self.was_repeated(array)):
            self._add([AGAIN, str(array)])

    def was_repeated(self, array: int) -> bool:
        """Say whether an array may have been submitted several times, because answers were lost."""
        return [AGAIN, str(array)] in self._rows

    def arrays(self) -> tuple[tuple[str, ...], ...]:
        """Return each array's number, cluster and tasks, and its id, empty when not known.

        Those of copies have a word more.
        """
        rows = (row for row in self._rows if row[0] == ARRAY)
        return tuple((*row[1:4], self.job(int(row[1])), *row[4:]) for row in rows)

    def submitted(self, array: int, job: str) -> None:
        """Note under which id it was submitted."""
        self._add([JOB, str(array), job])
        self._jobs.setdefault(str(array), job)

    def _begin(self) -> None:
        """Make its file; OSError where another call did so since we looked."""
        self._end = os.open(self._path, OPTIONS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._end, fcntl.LOCK_EX)
        if os.fstat(self._end).st_size:
            raise OSError(errno.EEXIST, "another call has begun it", self._path)

    def _add(self, row: list[str]) -> None:
        """Add a line, which lasts before anything is done; OSError when there is no room."""
        if self._end == NONE:
            self._begin()
        line = f"{' '.join(row)}\n".encode("ascii")
        before = os.lseek(self._end, 0, os.SEEK_END)
        try:
            written = os.write(self._end, line)
            os.fsync(self._end)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from None
        if written != len(line):
            os.ftruncate(self._end, before)
            raise OSError(NO_ROOM, "No space left on device", self._path)
        self._rows.append(row)


class Wanted:
    """The attempts that an array is to have; the earlier ones are never listed one by one."""

    def __init__(self, tasks: str) -> None:
        """Read them; ParseError for anything else than tasks with their attempts."""
        self._tasks: dict[str, list[int]] = {}  # by attempt
        for task, attempt in sorted(read_attempts(tasks)):
            self._tasks.setdefault(str(attempt), []).append(task)

    @property
    def is_twofold(self) -> bool:
        """Whether a task has several attempts among them."""
        every = [task for some in self._tasks.values() for task in some]
        return len({*every}) < len(every)

    def meets(self, earlier: str) -> bool:
        """Say whether one of them is in what an earlier array of ours has."""
        for part in earlier.split(","):
            numbers, _, attempt = part.partition(":")
            if wanted := self._tasks.get(attempt):
                first, _, last = numbers.partition("-")
                at = bisect_left(wanted, int(first))
                if at < len(wanted) and wanted[at] <= int(last or first):
                    return True
        return False


def _jobs(rows: list[list[str]]) -> dict[str, str]:
    """Return the first id that is noted of each array, by its number."""
    return {row[1]: row[2] for row in reversed(rows) if row[0] == JOB}


def _places(earlier: str, wanted: list[int]) -> list[int]:
    """Return at which places an earlier array has some tasks, which are in order."""
    found, before = [], 0
    for part in earlier.split(","):
        first, _, last = part.partition(":")[0].partition("-")
        here = wanted[bisect_left(wanted, int(first)) : bisect_right(wanted, int(last or first))]
        found += [before + task - int(first) + 1 for task in here]
        before += int(last or first) - int(first) + 1
    return found


def _without(tasks: list[int], earlier: str) -> list[int]:
    """Return those of some tasks, in order, that are not in what an earlier array has."""
    for part in earlier.split(","):
        first, _, last = part.partition(":")[0].partition("-")
        tasks = [
            *tasks[: bisect_left(tasks, int(first))],
            *tasks[bisect_right(tasks, int(last or first)) :],
        ]
    return tasks


def _opened(path: str) -> int:
    try:
        return os.open(path, OPTIONS)
    except FileNotFoundError:
        return NONE


def _tell(line: str) -> None:
    with suppress(OSError):  # nobody listens
        os.write(2, line.encode("ascii"))


def _own(folder: str) -> None:
    """Make the folder, or see that nobody else can write it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise LedgerLost(f"{folder}: not a folder of ours alone") from None

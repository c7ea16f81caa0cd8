"""Carry files to and from another host by rsync over ssh, with a person's own key.

rsync compares checksums of what is there already and verifies the whole of each file that it has
carried; a copy that was cut goes on where it was (rsync(1) --checksum, --partial-dir). Names
go by standard input and by rsync's own protocol, so no shell sees them (--secluded-args).
Between folders that are seen here it goes without ssh.
"""

import os
import select
import time

from gridbridge.errors import CommandFailed, OutputTooLong, ProgramNotStarted
from gridbridge.model.route import BARE, SshLogin
from gridbridge.shell import runner, ssh

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROGRAM = "/usr/bin/rsync"
WITH_US = ("/usr/bin/setpriv", "--pdeathsig", "TERM")  # ended so, it keeps its partial file
PARTIAL = ".gridbridge.partial"
OPTIONS = (
    *("--recursive", "--links", "--times", "--omit-dir-times", "--executability"),
    *("--checksum", "--secluded-args"),
)
BESIDE = (f"--partial-dir={PARTIAL}",)  # what is at a file's place stays until it is replaced
IN_PLACE = ("--inplace", "--no-whole-file")  # in a folder that nobody uses yet
PROGRESS = "--info=progress2"
LISTED = ("--from0", "--files-from=-")
INCOMPLETE = 23  # rsync(1): partial transfer due to error
FILE_ERROR = (
    11  # rsync(1): error in file I/O; of the other side's it may lose the line that says more
)
UNREAD = "a file could not be read or written"
DANGLING = "symlink has no referent"
FOLLOWS = ("Broken pipe", "connection unexpectedly closed")  # from what the other side has met
LOOK_S = 0.5  # between two checks whether the job was deleted
SIGTERM, END_S = 15, 5
MAX_BYTES = 65536  # of rsync's words about a failure, to be shown
MOST_BYTES = 16 << 20  # of rsync's words at most: a line for each of 100,000 files
SILENCE_S = 3600  # then it gives up; the checksum of a very large file is made in silence
LINE_BYTES = 200  # a line of progress has less
REMOVAL_S = 600.0


class CopyPace:
    """Copies into a folder that nobody uses yet: how fast, and whom to tell how far they are.

    Even when rsync is killed by SIGKILL, the part of a file that came is where it goes on.
    """

    __slots__ = ("kib_per_s", "tell")

    def __init__(self, *, tell: "Callable[[str], None]", kib_per_s: int = 0) -> None:
        self.kib_per_s = kib_per_s  # 0: no limit
        self.tell = tell  # is given rsync's own line of progress

    def options(self) -> tuple[str, ...]:
        """Return them as rsync takes them."""
        limit = (f"--bwlimit={self.kib_per_s}",) if self.kib_per_s else ()
        return (*IN_PLACE, PROGRESS, *limit)


def push(
    login: SshLogin | None,
    names: "Iterable[str]",
    target: str,
    is_unwanted: "Callable[[], bool]",
    pace: CopyPace | None = None,
) -> bool:
    """Carry files into a folder there; False when it was ended because the job was deleted.

    A name is an absolute path; what stands behind its first `/./` is made in the folder. A link
    becomes a copy of its target; one that leads nowhere is left out. Raises CommandFailed when not
    all arrived: what did is not carried again. Without a login the folder is here.
    """
    options = ("--copy-links", *LISTED)
    return _carry(login, options, names, "/", _location(login, target), is_unwanted, pace)


def push_one(login: SshLogin, path: str, target: str, is_unwanted: "Callable[[], bool]") -> bool:
    """Carry one file under another name."""
    return _carry(login, ("--copy-links",), (), path, _location(login, target), is_unwanted)


def pull(
    login: SshLogin,
    names: "Iterable[str]",
    source: str,
    target: str,
    is_unwanted: "Callable[[], bool]",
    leads: bool = False,
    may_miss: bool = False,
    pace: CopyPace | None = None,
    follows: bool = True,
) -> bool:
    """Carry the files with these names in a folder there into one here; links stay links.

    With `leads` every link becomes a copy of its target. A link to a folder here stays a link,
    unless others may have put it there (`follows`). With `may_miss` names that are not there are
    left out.
    """
    options = (*(("--keep-dirlinks",) if follows else ()), *LISTED)
    options += ("--copy-links",) if leads else ()
    options += ("--ignore-missing-args",) if may_miss else ()
    listed = (f"./{name}" for name in names)
    return _carry(login, options, listed, f"{_location(login, source)}/", target, is_unwanted, pace)


def remove(folder: str) -> None:
    """Remove a folder by which files went, however deep they lie; what can't be removed stays."""
    try:
        runner.run(("/bin/rm", "-rf", "--", folder), dict(BARE), REMOVAL_S)
    except CommandFailed:
        return


def _location(login: SshLogin | None, path: str) -> str:
    return f"{login.host}:{path}" if login else path


def _carry(
    login: SshLogin | None,
    options: tuple[str, ...],
    names: "Iterable[str]",
    source: str,
    target: str,
    is_unwanted: "Callable[[], bool]",
    pace: CopyPace | None = None,
) -> bool:
    by = ("-e", " ".join(ssh.connection(login))) if login else ()  # no word of it has a blank
    paced = pace.options() if pace else BESIDE
    patience = f"--timeout={SILENCE_S}"  # a dead host or a stale mount
    argv = (*WITH_US, PROGRAM, *OPTIONS, patience, *paced, *options, *by, "--", source, target)
    listed = "".join(f"{name}\0" for name in names).encode("utf-8", "surrogateescape")
    status, words = _run(argv, listed, is_unwanted, pace)
    if status is None:
        return False
    messages = [line for line in words.splitlines() if line]
    lines = [line for line in messages if not line.startswith("rsync error:")]
    only_dangling = lines and all(line.startswith(DANGLING) for line in lines)
    if status == 0 or (status == INCOMPLETE and only_dangling):
        return True
    host = login.host if login else ""
    explained = ssh.explain(login, words.encode()) if login else ""
    ended = UNREAD if status == FILE_ERROR else f"exit status {status}"
    why = explained or _reason(lines or messages, host) or ended
    raise CommandFailed((PROGRAM,), status, stderr=why.encode(), host=host, transient=True)


def _reason(lines: list[str], host: str) -> str:
    """Return the line that says why: the first that is not about what follows from it.

    Where all are, and the files went to another host, that was lost.
    """
    telling = [line for line in lines if not line.startswith(DANGLING)]
    causes = [line for line in telling if not any(words in line for words in FOLLOWS)]
    if telling and host and not causes:
        return f"the connection to {host} was lost"
    return (causes or telling or lines or [""])[0].removeprefix("rsync: ")


def _run(
    argv: tuple[str, ...], stdin: bytes, is_unwanted: "Callable[[], bool]", pace: CopyPace | None
) -> tuple[int | None, str]:
    """Run it to its end; the status is None when it was ended because the job was deleted."""
    source = runner.in_memory(stdin)
    ours, theirs = runner.ends()
    printed = RsyncOutput(*ours)

    def looks() -> bool:
        if pace:
            pace.tell(printed.progress())
        return is_unwanted()

    try:
        output = theirs[0] if pace else theirs[1]  # progress says nothing about a failure
        pid = runner.spawn(argv, BARE, [source, output, theirs[1]])
    except OSError as error:
        runner.close(ours)
        raise ProgramNotStarted(argv, error) from error
    finally:
        runner.close([source, *theirs])
    try:
        return _wait(pid, printed, looks), printed.words()
    except OverflowError as error:
        runner.kill(pid)
        raise OutputTooLong((PROGRAM,), MOST_BYTES) from error
    finally:
        runner.close(ours)


class RsyncOutput:
    """The kept output of rsync: the last progress, and the first errors."""

    def __init__(self, output: int, errors: int) -> None:
        self._output, self.unread = output, {output, errors}
        self._line = b""
        self._words = bytearray()

    def take(self, end: int) -> bool:
        """Read on; say whether more may come. OverflowError for too much output."""
        chunk = os.read(end, runner.CHUNK_BYTES)
        if end == self._output:
            self._line = (self._line + chunk)[-LINE_BYTES:]
        else:
            self._words += chunk
        if len(self._words) > MOST_BYTES:
            raise OverflowError
        if not chunk:
            self.unread.discard(end)
        return bool(chunk)

    def take_rest(self) -> None:
        """Read the rest of an ended program's output; another program may hold it open."""
        for end in tuple(self.unread):
            os.set_blocking(end, False)
            try:
                while self.take(end):
                    pass
            except BlockingIOError:
                continue

    def progress(self) -> str:
        """Return the last complete progress."""
        line = self._line.decode("utf-8", "replace")
        return line.replace("\n", "\r").rstrip("\r").rpartition("\r")[2].strip()

    def words(self) -> str:
        """Return the first part of the error output."""
        return bytes(self._words[:MAX_BYTES]).decode("utf-8", "replace")


def _wait(pid: int, output: RsyncOutput, is_unwanted: "Callable[[], bool]") -> int | None:
    end = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (end, *output.unread):
        poll.register(descriptor, select.POLLIN)
    looks_at = time.monotonic() + LOOK_S
    try:
        while end not in (ready := _ready(poll, looks_at)):
            for descriptor in ready:
                if not output.take(descriptor):
                    poll.unregister(descriptor)
            if time.monotonic() < looks_at:
                continue
            looks_at = time.monotonic() + LOOK_S
            if is_unwanted():
                os.kill(pid, SIGTERM)
                _await(end)
                runner.kill(pid)
                return None
    finally:
        os.close(end)
    output.take_rest()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _ready(poll: select.poll, until: float) -> list[int]:
    return [end for end, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000)]


def _await(end: int) -> None:
    """Wait a while for the end of a program that got a signal."""
    poll = select.poll()
    poll.register(end, select.POLLIN)
    poll.poll(END_S * 1000)
